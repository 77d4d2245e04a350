"""
Live tables of a cluster in Apache Spark 4: a partition for each node.

    import probing.spark
    probing.spark.register(spark)
    spark.read.format("probing").option("node", "10.0.0.1:7707").load("python.training_logs")

Each executor asks its node by the program `probing`, which comes with this package or is named by
$PROBING_EXECUTABLE. docs/fleet.md has the options.
"""
import datetime
import json
import math
import os
import subprocess
import tempfile

from pyspark.sql.datasource import (DataSource, DataSourceReader, EqualTo, GreaterThan,
                                    GreaterThanOrEqual, In, InputPartition, IsNotNull, IsNull,
                                    LessThan, LessThanOrEqual, Not, StringContains,
                                    StringEndsWith, StringStartsWith)

from . import _port

NO_TARGET = 4
PARTIAL = 6
# Types of Spark and what they are for the node; everything else travels as text.
TYPES = {"boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER",
         "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "string": "VARCHAR",
         "binary": "BLOB", "date": "DATE", "timestamp": "TIMESTAMPTZ",
         "decimal(20,0)": "DECIMAL(20,0)"}
COMPARISONS = {EqualTo: "=", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<",
               LessThanOrEqual: "<="}
TEXTS = {StringStartsWith: "starts_with", StringEndsWith: "ends_with", StringContains: "contains"}


def register(session):
    """Makes format("probing") known to a SparkSession."""
    session.dataSource.register(ProbingDataSource)


class Options(object):
    """What the reader was told; it goes to the executors."""

    def __init__(self, given):
        self.table = given.get("path") or given.get("table")
        self.node = given.get("node")
        self.token, self.token_file = given.get("token"), given.get("tokenFile")
        self.executable = given.get("executable")
        self.dead = given.get("dead", "false").lower() == "true"
        self.skip = given.get("missing", "fail") == "skip"
        self.where = given.get("where")
        self.pushdown = given.get("pushdown", "false").lower() == "true"
        self.timeout = float(given.get("timeout", "60"))
        if not self.table or not self.node:
            raise ValueError('probing: .option("node", "HOST:PORT").load("schema.table")')
        if any(not (c.isalnum() or c in "._") for c in self.table):
            raise ValueError("probing: %r is no name of a table" % self.table)

    def run(self, node, *words):
        tool = self.executable or _port.find()
        if not tool:
            raise RuntimeError("probing: no program `probing` on this machine; set "
                               "$PROBING_EXECUTABLE")
        env = dict(os.environ)
        if self.token:
            env["PROBING_TOKEN"] = self.token
        more = ["--token-file", self.token_file] if self.token_file else []
        return subprocess.run([tool] + more + [node] + list(words), env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=self.timeout + 10)

    def query(self, node, how, sql):
        """The answer as an Arrow table; None where there is no such table."""
        import pyarrow.parquet
        words = ["query", how, "--timeout", "%g" % self.timeout] + ["--dead"] * self.dead
        with tempfile.TemporaryDirectory(prefix="probing-spark-") as folder:
            path = os.path.join(folder, "rows.parquet")
            it = self.run(node, *(words + ["-o", path, sql]))
            if it.returncode == 0 or it.returncode == PARTIAL and how == "--cluster":
                return pyarrow.parquet.read_table(path)
        said = it.stderr.decode("utf-8", "replace").strip()
        if "no table '%s'" % self.table in said:
            return None
        raise RuntimeError("probing: %s: %s" % (node, said or "exit status %d" % it.returncode))

    def members(self):
        """Addresses of the nodes; those that are gone are no silence."""
        it = self.run(self.node, "cluster", "nodes", "-f", "json")
        if it.returncode == NO_TARGET and b"no cluster" in it.stderr + it.stdout:
            return [self.node], []
        if it.returncode:
            raise RuntimeError(it.stderr.decode("utf-8", "replace").strip())
        told = json.loads(it.stdout.decode("utf-8"))
        if not told.get("attached"):
            return [self.node], []
        there = [one for one in told["members"] if one["state"] in ("alive", "suspect")]
        gone = [one["host"] for one in told["members"] if one["state"] == "gone"]
        # The one that was named is asked under the name that works here.
        own = not told["observer"]
        return [self.node if own and one["self"] else one["address"] for one in there], gone


def spark_type(arrow):
    import pyarrow.types as t
    for test, name in ((t.is_boolean, "boolean"), (t.is_int8, "tinyint"), (t.is_int16, "smallint"),
                       (t.is_uint8, "smallint"), (t.is_int32, "int"), (t.is_uint16, "int"),
                       (t.is_int64, "bigint"), (t.is_uint32, "bigint"),
                       (t.is_uint64, "decimal(20,0)"), (t.is_float32, "float"),
                       (t.is_float64, "double"), (t.is_binary, "binary"), (t.is_date32, "date"),
                       (t.is_timestamp, "timestamp")):
        if test(arrow):
            return name
    return "string"


def quoted(name):
    return '"%s"' % name.replace('"', '""')


def literal(value):
    """SQL for a value, or None: that filter stays with Spark."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return "%d" % value
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return None if "\0" in value else "'%s'" % value.replace("'", "''")
    if isinstance(value, datetime.datetime) and value.tzinfo:
        return "TIMESTAMPTZ '%s'" % value.isoformat(" ")
    return None


def condition(f):
    """SQL for a filter, or None."""
    if isinstance(f, Not):
        inner = condition(f.child)
        return inner and "NOT (%s)" % inner
    if len(f.attribute) != 1:
        return None
    column = quoted(f.attribute[0])
    if isinstance(f, (IsNull, IsNotNull)):
        return "%s IS %sNULL" % (column, "" if isinstance(f, IsNull) else "NOT ")
    if isinstance(f, In):
        values = [literal(value) for value in f.value]
        return None if None in values or not values else "%s IN (%s)" % (column, ", ".join(values))
    value = literal(f.value) if type(f) in COMPARISONS or type(f) in TEXTS else None
    if value is None:
        return None
    if type(f) in COMPARISONS:
        return "%s %s %s" % (column, COMPARISONS[type(f)], value)
    return "%s(%s, %s)" % (TEXTS[type(f)], column, value)


class ProbingDataSource(DataSource):
    """One table, live, of all nodes of a cluster, or of one node that is in none."""

    @classmethod
    def name(cls):
        return "probing"

    def schema(self):
        it = Options(self.options)
        nodes, _ = it.members()
        how = "--cluster" if len(nodes) > 1 else "--local"
        table = it.query(it.node, how, "SELECT * FROM %s LIMIT 0" % it.table)
        if table is None:
            raise RuntimeError("probing: no table '%s' at any node" % it.table)
        return ", ".join("`%s` %s" % (field.name.replace("`", "``"), spark_type(field.type))
                         for field in table.schema)

    def reader(self, schema):
        options = Options(self.options)
        return (FilteringReader if options.pushdown else Reader)(options, schema)


class Reader(DataSourceReader):
    """Rows of one node for each partition."""

    def __init__(self, options, schema):
        self.options, self.where = options, [options.where] if options.where else []
        self.columns = ", ".join(
            "CAST(%s AS %s) AS %s" % (quoted(field.name),
                                      TYPES.get(field.dataType.simpleString(), "VARCHAR"),
                                      quoted(field.name)) for field in schema.fields)

    def partitions(self):
        nodes, gone = self.options.members()
        if gone and not self.options.skip:
            raise RuntimeError("probing: gone: %s; .option(\"missing\", \"skip\") reads the others"
                               % ", ".join(gone))
        return [InputPartition(node) for node in nodes]

    def read(self, partition):
        sql = "SELECT %s FROM %s" % (self.columns, self.options.table)
        if self.where:
            sql += " WHERE " + " AND ".join("(%s)" % one for one in self.where)
        table = self.options.query(partition.value, "--local", sql)
        for batch in table.to_batches() if table is not None else ():
            yield batch


class FilteringReader(Reader):
    """
    With the filters of the first statement that has any. Spark 4.3 keeps them in the DataFrame and
    uses them for statements without filters as well: whoever asks for this loads anew for each.
    """

    def pushFilters(self, filters):
        """Nodes leave out what they can; Spark looks at all that comes all the same."""
        for one in filters:
            sql = condition(one)
            if sql:
                self.where.append(sql)
            yield one
