"""Names outside ASCII: functions, locals, threads. Run from a copy in an odd folder."""
import os
import sys
import threading
import time


def größe(straße):
    变量 = "値"
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(100000)  # LINE:leaf
    return straße, 变量


class Größe:
    def 計算(self):
        größe("œuvre 😀")  # LINE:method


thread = threading.Thread(target=Größe().計算, name="線程 ü 😀")
thread.start()
thread.join()  # LINE:module
