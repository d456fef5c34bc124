"""Which devices train and which infer, and how the weights get from one to the other."""
