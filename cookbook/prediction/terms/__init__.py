"""What each kind of prediction adds up: lists of terms, each a formula of `performance`."""
