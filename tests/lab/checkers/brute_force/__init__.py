"""Judges by definition: as plain as can be, to compare those of the product with."""
