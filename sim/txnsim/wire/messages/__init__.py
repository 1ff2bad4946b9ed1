"""Messages that kio has no classes for, in the form of kio's own: one module per API and
version.
"""
