"""The reference of the option structs, made from Doxygen's XML by docs.py."""
import re
import textwrap
import xml.etree.ElementTree
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / 'tensor' / 'ops' / 'OPTIONS.md'
STRUCT = re.compile(r'^ *struct (?:MZ_API )?\w*Options {', re.MULTILINE)
# Headers of types whose options are fields of their own.
OWN_FIELDS = re.compile(r'optim/schedules/(cyclic_)?schedule\.h|'
                        r'nn/data/(sampler|transform|image_transforms)\.h')
# Comments that say nothing away from their place.
RELATIVE = re.compile(r'^(as above|likewise|the same)\W*$')
RENEW = 'ninja -C build renew_options'
COLUMNS = 100
# Title of a section -> the beginnings of its headers' paths.
SECTIONS = {
    'Ops': ('tensor/ops/', 'tensor/core/reduce_options.h'),
    'Layers and models': ('nn/',),
    'Optimizers and schedules': ('optim/',),
    'Mixed precision': ('amp/',),
    'Data': ('nn/data/',),
    'Gradients': ('autograd/',),
    'Tensors, files, devices': ('tensor/', 'cuda/'),
    'Several processes': ('tensor/comm/', 'nn/parallel/'),
    'Measuring': ('measure/',),
}
HEAD = '''# Options

Every option struct of Mezzo, by op and layer. To set options, name their fields in braces, in this
order; the others keep their defaults: `conv2d(x, w, {}, {.stride = 2})`,
`nn::Conv2d{3, 16, 3, {.stride = 2, .bias = false}}`. A default `{}` of a `std::optional` means not
given. Types of fields without `std::` are those of Mezzo. Schedules, samplers and transforms have
their options as fields of their own: `data::RandomRotation{.degrees = 10}`.

What ops compute is in the [op reference](README.md#reference).

This page is made from the comments in the headers; after a change of these:
`{renew}`.
'''

Field = namedtuple('Field', 'declaration text')
Struct = namedtuple('Struct', 'name summary header fields users')


def text_of(element):
    return ' '.join(''.join(element.itertext()).split()) if element is not None else ''


def comment_of(element):
    """Returns the comment at an entry of Doxygen's."""
    parts = (text_of(element.find(tag)) for tag in ('briefdescription', 'detaileddescription'))
    return ' '.join(filter(None, parts))


def shown(name):
    return name.removeprefix('mezzo::')


def field_of(member):
    """Returns the declaration and the meaning of a field."""
    kind = re.sub(r'(<) | (>)', r'\1\2', text_of(member.find('type')))
    default = re.sub(r'(\{) | (\})', r'\1\2', text_of(member.find('initializer')))
    default = re.sub(r'^= *', '= ', default)
    declaration = f'{kind} {text_of(member.find("name"))}'
    return Field(f'{declaration} {default}' if default else declaration, comment_of(member))


def read(folder):
    """Returns {id: Struct} of all option structs."""
    roots = [xml.etree.ElementTree.parse(path).getroot() for path in sorted(folder.glob('*.xml'))]
    compounds = [one for root in roots for one in root.iter('compounddef')]
    users = {}  # id of a struct -> names of what takes it
    for member in (one for compound in compounds for one in compound.iter('memberdef')):
        if member.get('kind') != 'function' or member.get('prot') == 'private':
            continue
        name = shown(text_of(member.find('qualifiedname')))
        *outer, last = name.split('::')
        if last.startswith('operator'):
            continue
        if outer and outer[-1] == last:
            name = '::'.join(outer)  # a constructor
        for reference in member.iterfind('param/type/ref'):
            users.setdefault(reference.get('refid'), set()).add(name)
    layers = {}  # name of a struct -> names of layers that have its fields as their own
    for compound in compounds:
        for base in compound.iterfind('basecompoundref'):
            if match := re.match(r'(?:\w+::)*NamedOptions< *\w+, *& *(\w+)::', text_of(base)):
                name = shown(text_of(compound.find('compoundname')))
                layers.setdefault(match[1], set()).add(name)
    found = {}
    for compound in compounds:
        name = shown(text_of(compound.find('compoundname')))
        header = compound.find('location').get('file')
        if compound.get('kind') != 'struct':
            continue
        fields = [field_of(one) for one in compound.iter('memberdef')
                  if one.get('kind') == 'variable' and one.get('static') == 'no']
        if name.endswith(('Options', 'OptionsOf')) or (fields and OWN_FIELDS.fullmatch(header) and
                                        not name.endswith('::State')):
            key = compound.get('id')
            found[key] = Struct(name, comment_of(compound), header, fields,
                                sorted(users.get(key, set()) | layers.get(name, set())))
    return found


def section_of(header):
    """Returns the title of the section with the longest beginning of the header's path."""
    return max((len(beginning), title) for title, beginnings in SECTIONS.items()
               for beginning in beginnings if header.startswith(beginning))[1]


def wrapped(text, indent=''):
    return textwrap.fill(text, COLUMNS, subsequent_indent=indent,
                         break_long_words=False, break_on_hyphens=False)


def anchor(name):
    return re.sub(r'[^\w\- ]', '', name).lower()


def index_line(struct):
    """Returns what takes the options, with a link to them."""
    named = re.match(r'Options of (the )?([^.;]*)', struct.summary)
    users = ', '.join(f'`{user}`' for user in struct.users) or (named[2] if named else '')
    link = f'[{struct.name}](#{anchor(struct.name)})'
    return wrapped(f'- {users}: {link}' if users else f'- {link}', '  ')


def entry(struct):
    lines = [f'### {struct.name}\n']
    where = f'[{struct.header}](../../{struct.header})'
    lines.append(wrapped(f'{struct.summary} Declared in {where}.') + '\n')
    lines += [wrapped(f'- `{field.declaration}`: {field.text}', '  ') for field in struct.fields]
    return '\n'.join(lines) + '\n'


def page(structs):
    parts = [HEAD.replace('{renew}', RENEW)]
    for title in SECTIONS:
        members = sorted((one for one in structs if section_of(one.header) == title),
                         key=lambda one: (one.header, one.name))
        if members:
            parts += [f'## {title}\n', '\n'.join(map(index_line, members)) + '\n',
                      *map(entry, members)]
    return '\n'.join(parts)


def differences(folder, renew):
    """Lists what is wrong with the reference; writes it anew if `renew` is set."""
    structs = list(read(folder).values())
    for struct in structs:
        for field in struct.fields:
            if not field.text or RELATIVE.match(field.text):
                yield (f'{struct.header}: {struct.name}: the comment on `{field.declaration}` does '
                       f'not say what it is; got "{field.text}"')
        if not struct.fields:
            yield f'{struct.header}: {struct.name} has no fields'
    made = page(structs)
    if renew:
        PAGE.write_text(made, encoding='utf-8')
    elif not PAGE.exists() or PAGE.read_text(encoding='utf-8') != made:
        yield f'{PAGE.relative_to(ROOT)} is not what the headers say; renew it: {RENEW}'
