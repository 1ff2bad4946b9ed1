"""Who acts in a story: ``wire`` sends each request by hand, ``application`` uses a client as
programs do, ``bystander`` writes without transactions, ``reader`` and ``operator`` look; ``base``
has what they share.

What each of them is told goes into the history that the judges read.
"""
