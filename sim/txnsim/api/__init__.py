"""One file per API, named as kio names it: what each version means, translated to the cores.

``registry`` lists them; ``request`` says what a handler is given and may answer.
"""
