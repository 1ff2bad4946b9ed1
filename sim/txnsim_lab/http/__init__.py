"""What the lab adds to the control port; ``control_port`` lists it."""
