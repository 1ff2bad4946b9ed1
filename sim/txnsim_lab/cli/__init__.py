"""Commands of the lab; ``commands`` lists them."""
