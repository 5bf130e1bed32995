"""One database of DuckDB for all tests of a process.

DuckDB makes all its functions anew for every database, which takes 0.03 s: a third of what tests of
small files take. Here a connection is one to a database that there is already, with its settings
as they were asked for, and nothing left of what was read before.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import duckdb

SETTINGS = ("temp_directory", "memory_limit", "threads")
new_database = duckdb.connect


@cache
def _database(process: int) -> Any:
    """A forked process has its own: it has none of the threads of its parent's."""
    return new_database(":memory:")


def connect_to_shared(database: str, config: dict[str, str]) -> Any:
    """In place of ``duckdb.connect``."""
    if database != ":memory:" or not config.keys() <= set(SETTINGS):
        return new_database(database, config=config)
    connection = _database(os.getpid()).cursor()
    try:
        for value in ("false", "true"):  # what was kept of files is forgotten
            connection.execute(f"SET enable_external_file_cache = {value}")
        for name in SETTINGS:
            given = config.get(name)
            quoted = "" if given is None else given.replace("'", "''")
            connection.execute(f"RESET {name}" if given is None else f"SET {name} = '{quoted}'")
    except duckdb.Error:  # wrong settings, or results were written to the folder of another
        connection.close()
        return new_database(database, config=config)
    return connection
