"""The site: the page with the simulator in WebAssembly, as files for any file server.

``build`` makes it (``txnsim site build``). In the browser ``static/site_worker.js`` starts Python
in a worker, and ``_backend`` answers there what the control port answers, by the same functions.
``_stand_ins`` are modules that WebAssembly lacks.
"""
