"""Several learner hosts: how they find one another, and how each notices that another one is lost."""
