"""What listens: ``cluster`` puts a simulated cluster together, ``listener`` and ``connection``
serve clients, ``crossings`` leads their requests past faults.
"""
