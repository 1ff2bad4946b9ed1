"""One file per API, named as kio names it: what each version means, translated to the cores.

``registry`` finds them; ``request`` has the arguments and answers of a handler.
"""
