"""Newton's method for measures of risk."""
