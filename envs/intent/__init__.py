"""Intent: what a user asked for, as an object outside the model."""
