# repl's %who: the names in __main__ and what they are.
import __main__

rows = ['%-20s %s' % (name, type(value).__name__)
        for name, value in sorted(vars(__main__).items())
        if not name.startswith('_') and type(value).__name__ != 'module']
print('\n'.join(rows) or 'nothing')
