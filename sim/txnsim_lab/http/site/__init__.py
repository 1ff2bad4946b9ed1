"""The site: the page with the simulator in WebAssembly, as files for any file server.

``build`` makes it (``txnsim site build``). In the browser ``static/site_worker.js`` starts Python
in a worker, where ``_backend`` answers requests by the functions of the control port.
``_stand_ins`` are modules that WebAssembly lacks.
"""
