"""What the lab adds to the control port; ``joined`` lists it."""
