"""A real Slurm on machines of the test's own: its daemons without munge, as Debian packs them."""
import os
import shutil
import subprocess

import patience

CONF = """ClusterName=test
SlurmctldHost={controller}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SlurmdParameters=config_overrides
{plugins}NodeName={nodes} CPUs=4 State=UNKNOWN
PartitionName=all Nodes={nodes} Default=YES State=UP
"""


def root():
    """Where the packages are unpacked: $PROBING_TEST_SLURM, or / where they are installed."""
    return os.environ.get("PROBING_TEST_SLURM", "/")


def program(name):
    """Debian adds -wlm to what has the name of another package's."""
    path = os.pathsep.join(os.path.join(root(), folder) for folder in (
        "usr/sbin", "usr/bin", "usr/local/sbin", "usr/local/bin"))
    return shutil.which(name, path=path) or shutil.which(name + "-wlm", path=path)


def why_not():
    return next(("no " + name for name in ("slurmctld", "slurmd", "slurmstepd", "srun", "squeue")
                 if not program(name)), None)


class Slurm:
    """The first machine is the controller, too; the last has the commands alone."""

    def __init__(self, folder, machines):
        self.folder, self.machines = os.path.join(str(folder), "slurm"), machines
        os.makedirs(self.folder + "/state")
        libraries = os.path.join(root(), "usr/lib/x86_64-linux-gnu")
        plugins = libraries + "/slurm-wlm"
        with open(self.folder + "/slurm.conf", "w") as file:
            file.write(CONF.format(
                controller=machines[0].name, folder=self.folder,
                nodes=",".join(host.name for host in machines[:-1]),
                plugins="PluginDir=%s\n" % plugins if os.path.isdir(plugins) else ""))
        with open(self.folder + "/hosts", "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(
                "%s %s\n" % (host.address, host.name) for host in machines))
        for host in machines:
            host.env.update({"LD_LIBRARY_PATH": plugins + ":" + libraries,
                             "SLURM_CONF": self.folder + "/slurm.conf",
                             "PATH": os.path.dirname(program("srun")) + ":" + os.environ["PATH"]})
            host.run("mount", "--bind", self.folder + "/hosts", "/etc/hosts")
            os.makedirs("%s/spool-%s" % (self.folder, host.name))
        self.start(machines[0], "slurmctld", "-D", "-i")
        for host in machines[:-1]:
            self.start(host, "slurmd", "-D", "-N", host.name, "-d", program("slurmstepd"))
        assert patience.once(lambda: machines[-1].run(
            "sinfo", "-h", "-o", "%t %D").stdout.strip() == "idle %d" % (len(machines) - 1)), (
          machines[-1].run("sinfo"))

    def start(self, host, name, *words):
        with open("%s/%s-%s.log" % (self.folder, name, host.name), "w") as log:
            host.start(program(name), *words, stdout=log, stderr=subprocess.STDOUT)

    def job(self, *words, **how):
        """A job on all nodes, two tasks on each; its number, once it runs."""
        last = self.machines[-1]
        last.start("srun", "-N", len(self.machines) - 1, "--ntasks-per-node=2", *words,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
        running = patience.once(lambda: last.run("squeue", "-h", "-t", "R", "-o",
                                                 "%i").stdout.split())
        assert running, last.run("squeue")
        return running[0]
