"""Several learner hosts. The learner holds a `team.Team`, and calls nothing else of this package."""
