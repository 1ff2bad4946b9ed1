"""Messages that kio has no classes for, in kio's manner: one module per API and version."""
