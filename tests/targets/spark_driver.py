"""
A driver of Spark: reads its task, {"tables": {name: how}, "sql": [...]}, and prints the rows of
each statement as JSON. how: {"parquet": folder}, or options of the data source probing with "load".
"fresh": tables are loaded anew for each statement.
"""
import json
import sys

from pyspark.sql import SparkSession

import probing.spark


def session(task):
    keep = {"spark.driver.host": task["address"], "spark.driver.bindAddress": task["address"],
            "spark.ui.enabled": "false", "spark.executor.memory": "600m",
            "spark.sql.shuffle.partitions": "4", "spark.sql.session.timeZone": "UTC"}
    made = SparkSession.builder.master(task["master"]).appName("test")
    for name, value in keep.items():
        made = made.config(name, value)
    return made.getOrCreate()


def plain(value):
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def main():
    with open(sys.argv[1]) as file:
        task = json.load(file)
    spark = session(task)
    probing.spark.register(spark)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    load(spark, task)
    answers = []
    for sql in task["sql"]:
        if task.get("fresh"):
            load(spark, task)
        answers.append(answer(spark, sql, task))
    print(json.dumps(answers))


def load(spark, task):
    for name, how in task["tables"].items():
        if "parquet" in how:
            frame = spark.read.parquet(how["parquet"])
        else:
            options = dict(how)
            table = options.pop("load")
            frame = spark.read.format("probing").options(**options).load(table)
        frame.createOrReplaceTempView(name)


def answer(spark, sql, task):
    try:
        frame = spark.sql(sql)
        parts = frame.rdd.getNumPartitions() if task.get("partitions") else None
        return {"rows": [[plain(cell) for cell in row] for row in frame.collect()],
                "partitions": parts}
    except Exception as error:
        return {"error": str(error)[:2000]}


main()
