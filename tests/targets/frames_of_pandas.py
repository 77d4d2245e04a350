"""DataFrames of several kinds in local variables."""
import os
import time

import numpy
import pandas


def work():
    plain = pandas.DataFrame({"step": range(1000), "loss": numpy.arange(1000.0), "tag": "x"})
    column = plain["loss"]
    wide = pandas.DataFrame(numpy.zeros((3, 40)))
    dated = plain.set_index(pandas.date_range("2020", periods=1000))
    grouped = plain.set_index(["step", "tag"])
    empty = pandas.DataFrame()
    many = pandas.DataFrame({"c%d" % i: [i] for i in range(9)})
    print("ready", os.getpid(), flush=True)
    time.sleep(100000)
    return plain, column, wide, dated, grouped, empty, many


work()
