"""probing.config: the agent's settings as a mapping."""
from . import _agent


class Config:
    """
    The settings of this process's agent: config["eval.timeout"] reads and sets, get(), set(),
    update(), list(). Values are int, float or bool. Names may carry "probing." in front.
    The agent must be running.
    """

    def list(self):
        """All settings: {name: value}."""
        pairs = (line.partition("=") for line in ask("").splitlines())
        return {name.strip(): value_of(text) for name, _, text in pairs}

    def get(self, name, default=None):
        try:
            return self[name]
        except _agent.SettingError:
            return default

    def set(self, name, value):
        self.update({name: value})

    def update(self, settings=(), **more):
        """Several at once: all are taken or, if one is wrong, none."""
        wanted = dict(settings)
        if more:
            spelled = {name.replace(".", "_"): name for name in self.list()}
            wanted.update((spelled.get(name, name), more[name]) for name in more)
        if wanted:
            lines = ["%s=%s" % (clean(name), text_of(value)) for name, value in wanted.items()]
            self.ask_about("\n".join(lines), wanted)

    def __getitem__(self, name):
        return value_of(self.ask_about(clean(name), [name]).strip().rpartition("=")[2])

    def __setitem__(self, name, value):
        self.set(name, value)

    def __iter__(self):
        return iter(self.list())

    def __len__(self):
        return len(self.list())

    def __contains__(self, name):
        return bare(name) in self.list()

    def keys(self):
        return self.list().keys()

    def values(self):
        return self.list().values()

    def items(self):
        return self.list().items()

    def ask_about(self, text, names):
        """The agent's answer; its complaint about an unknown name gets the nearest known one."""
        try:
            return ask(text)
        except _agent.SettingError as error:
            hint = nearest(names, list(self.list()))
            if not hint or not str(error).startswith("no setting"):
                raise
            raise _agent.SettingError("%s. Did you mean '%s'?" % (error, hint)) from None

    def __repr__(self):
        try:
            return "probing.config(%r)" % self.list()
        except _agent.AgentError as error:
            return "probing.config(%s)" % error


def ask(text):
    from . import _wire
    return _wire.ask(_wire.CONFIG, text)


def clean(name):
    """One line that is not empty, whatever was given; the agent judges it."""
    return " ".join(str(name).replace("=", " ").split()) or "''"


def bare(name):
    name = clean(name)
    return name[len("probing."):] if name.startswith("probing.") else name


def nearest(names, known):
    """The known name that the first unknown one resembles, or None."""
    import difflib
    for name in map(bare, names):
        if name not in known:
            return (difflib.get_close_matches(name, known, 1) or [None])[0]
    return None


def text_of(value):
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return ("%.3f" % value).rstrip("0").rstrip(".")
    return " ".join(str(value).split())


def value_of(text):
    text = text.strip()
    if text in ("on", "off"):
        return text == "on"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


config = Config()
