"""Independent truths that the tests and ``make verify`` compare the package with.

Every value comes from 50-digit arithmetic, scipy or a linear program, written from the
definitions alone. Only :mod:`oracle.catalogue` and :mod:`oracle.package` import ``eqrm``: they
list what is compared, and compute the other side of the comparison.
"""
