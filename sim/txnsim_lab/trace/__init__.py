"""What is made of a recorded trace: explanations, differences, other formats."""
