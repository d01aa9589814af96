"""What ARCHITECTURE, CONTRIBUTING and the files for contributors say is so."""

import ast
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CLONE = Path(__file__).resolve().parent.parent
TOP_LEVEL = sorted(file.name for file in CLONE.glob('*.md'))
LINT_IMPORTS = Path(sys.prefix) / 'bin/lint-imports'

# Of schema 1.2.0 of the Citation File Format.
CFF_KEYS = {
    *('abstract', 'authors', 'cff-version', 'commit', 'contact', 'date-released', 'doi'),
    *('identifiers', 'keywords', 'license', 'license-url', 'message', 'preferred-citation'),
    *('references', 'repository', 'repository-artifact', 'repository-code', 'title', 'type'),
    *('url', 'version'),
}
CFF_REFERENCE_KEYS = {
    *('type', 'title', 'authors', 'year', 'month', 'conference', 'collection-title', 'doi'),
    *('url', 'pages', 'notes'),
}


@pytest.fixture(scope='module')
def architecture():
    return (CLONE / 'ARCHITECTURE.md').read_text()


# ARCHITECTURE.md


def floors_of(text):
    """Return the floors that a drawing has, each line as a list of names."""
    (drawing,) = re.findall(r'^```\n(.*?)^```$', text, re.M | re.S)
    return [re.findall(r'\w+', line.split('  ')[0]) for line in drawing.splitlines()]


def test_the_floors_are_those_that_lint_imports_checks(architecture):
    contracts = tomllib.loads((CLONE / 'pyproject.toml').read_text())['tool']['importlinter']
    layers = contracts['contracts'][0]['layers']
    assert floors_of(architecture) == [layer.split(' | ') for layer in layers]


def test_every_package_is_on_a_floor(architecture):
    package = CLONE / 'niom_ros'
    modules = {file.stem for file in package.glob('[!_]*.py')}
    packages = {file.parent.name for file in package.glob('*/__init__.py')}
    assert {name for line in floors_of(architecture) for name in line} == modules | packages


def test_architecture_is_one_page(architecture):
    assert len(architecture.splitlines()) <= 80


def named_code(text):
    """Return the files of the package that a text names, each with a name in it or ''."""
    return sorted(set(re.findall(r'`([\w/]+/[\w/]*\.py)(?::([\w.]+))?`', text)))


def names_in(file):
    """Return all that a file defines: classes, functions, constants, and `Class.member`."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        names |= set(defined_by(node))
        if isinstance(node, ast.ClassDef):
            members = {member for part in node.body for member in defined_by(part)}
            members |= {part.attr for part in ast.walk(node) if is_set_on_self(part)}
            names |= {f'{node.name}.{member}' for member in members}
    return names


def is_set_on_self(node):
    stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    return stored and isinstance(node.value, ast.Name) and node.value.id == 'self'


def defined_by(node):
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = getattr(node, 'targets', [getattr(node, 'target', None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_documents_name_many_files(architecture):
    assert len({file for file, _ in named_code(architecture)}) > 25
    security = (CLONE / 'SECURITY.md').read_text()
    assert len({file for file, _ in named_code(security)}) > 10


@pytest.mark.parametrize(
    'document,file,name',
    [
        (document, file, name)
        for document in ('ARCHITECTURE.md', 'SECURITY.md')
        for file, name in named_code((CLONE / document).read_text())
    ],
)
def test_the_code_that_documents_name_exists(document, file, name):
    path = CLONE / 'niom_ros' / file
    assert path.is_file()
    assert not name or name in names_in(path)


def test_the_folders_that_architecture_names_exist(architecture):
    for folder in re.findall(r'`([\w/]+/)`', architecture):
        assert (CLONE / folder).is_dir() or (CLONE / 'niom_ros' / folder).is_dir(), folder


# Links


def anchors_in(text):
    """Return the anchors that GitHub makes of the headings of a text."""
    headings = re.findall(r'^#+ (.+)$', text, re.M)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}


@pytest.mark.parametrize('document', TOP_LEVEL)
def test_links_lead_somewhere(document):
    text = re.sub(r'^```.*?^```$', '', (CLONE / document).read_text(), flags=re.M | re.S)
    for link in re.findall(r'\]\(([^)\s]+)\)', text):
        if '://' in link:
            continue
        path, _, anchor = link.partition('#')
        target = CLONE / (path or document)
        assert target.exists(), link
        assert not anchor or anchor in anchors_in(target.read_text()), link


def test_contributing_names_targets_of_the_makefile():
    makefile = (CLONE / 'Makefile').read_text()
    targets = set(re.findall(r'\bmake ([a-z-]+)', (CLONE / 'CONTRIBUTING.md').read_text()))
    assert {'setup', 'test', 'lint', 'demo'} <= targets
    for target in targets:
        assert re.search(rf'^{target}:', makefile, re.M), target


# Floors


def floors_checked(folder):
    """Run lint-imports on the copy of the package in a folder."""
    return subprocess.run(
        [LINT_IMPORTS, '--no-cache'],
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': str(folder), 'COLUMNS': '200'},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path):
    """Return a folder with a copy of the package and its contract."""
    shutil.copytree(
        CLONE / 'niom_ros', tmp_path / 'niom_ros', ignore=shutil.ignore_patterns('__pycache__')
    )
    shutil.copy(CLONE / 'pyproject.toml', tmp_path)
    return tmp_path


def add_import(file, module):
    file.write_text(f'{file.read_text()}\nimport {module}\n')


def test_the_package_keeps_its_floors(copy):
    finished = floors_checked(copy)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert '0 broken' in finished.stdout


def test_an_import_from_a_higher_floor_is_refused(copy):
    add_import(copy / 'niom_ros/core/boxes.py', 'niom_ros.nodes.newest_frame')
    finished = floors_checked(copy)
    assert finished.returncode != 0
    assert 'Floors BROKEN' in finished.stdout
    assert 'niom_ros.core.boxes -> niom_ros.nodes.newest_frame' in finished.stdout


def test_an_import_across_one_floor_is_refused(copy):
    add_import(copy / 'niom_ros/tracking/frames.py', 'niom_ros.references.plain_yaml')
    finished = floors_checked(copy)
    assert finished.returncode != 0
    assert 'niom_ros.tracking.frames -> niom_ros.references.plain_yaml' in finished.stdout


def test_a_circle_on_one_floor_is_refused(copy):
    # parameters.py imports settings.py.
    add_import(copy / 'niom_ros/core/settings.py', 'niom_ros.core.parameters')
    finished = floors_checked(copy)
    assert finished.returncode != 0
    assert 'No circular imports BROKEN' in finished.stdout
    assert 'niom_ros.core.' in finished.stdout
    assert '.settings -> .parameters' in finished.stdout


# Files for contributors


def pre_commit_hooks():
    configuration = yaml.safe_load((CLONE / '.pre-commit-config.yaml').read_text())
    (repository,) = configuration['repos']
    assert repository['repo'] == 'local'  # anything else is cloned from the network
    return {hook['id']: hook for hook in repository['hooks']}


def run_hook(name, *arguments):
    return subprocess.run(
        f'{pre_commit_hooks()[name]["entry"]} {" ".join(map(str, arguments))}',
        shell=True,
        cwd=CLONE,
        env={**os.environ, 'NIOM_ENV': sys.prefix},
        capture_output=True,
        text=True,
        check=False,
    )


def test_pre_commit_runs_what_make_lint_runs():
    makefile = (CLONE / 'Makefile').read_text()
    (checked,) = re.findall(r'^CHECKED := (.+)$', makefile, re.M)
    (recipe,) = re.findall(r'^lint:.*\n((?:\t.+\n)+)', makefile, re.M)
    linted = re.findall(r'/bin/(?:python" -m |)(\S.*)', recipe.replace('$(CHECKED)', checked))
    hooks = pre_commit_hooks()
    assert {hook['language'] for hook in hooks.values()} == {'system'}
    entries = [hook['entry'] for hook in hooks.values() if 'stages' not in hook]
    run = [re.findall(r'/bin/(?:python" -m |)(\S.*)\'', entry)[0] for entry in entries]
    assert run == linted
    assert len(run) == 4


def test_pre_commit_checks_after_a_change_of_code_or_of_the_settings_of_its_tools():
    hooks = [hook for hook in pre_commit_hooks().values() if 'stages' not in hook]
    for file in ('niom_ros/core/boxes.py', 'setup.py', 'pyproject.toml'):
        assert all(re.search(hook['files'], file) for hook in hooks), file
    assert not any(re.search(hook['files'], 'README.md') for hook in hooks)


@pytest.mark.parametrize('hook', ['ruff-check', 'ruff-format'])
def test_hooks_run_the_tools_of_the_environment(hook):
    finished = run_hook(hook)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize(
    'message,problem',
    [
        ('replay: read db3', ''),
        ('README: a second soak\n\nBecause the first was short.\n', ''),
        ('matching, niom eval, test: say nothing twice', ''),
        ('niom eval: say how many pairs\n# Please enter the commit message', ''),
        (f'core: {"x" * 66}', ''),
        ("Merge branch 'floors'", ''),
        (f'core: {"x" * 67}', 'has 73 characters: use at most 72'),
        ('Repair the replay', "not of the form 'area: what'"),
        ('replay,: read db3', "not of the form 'area: what'"),
        ('', "not of the form 'area: what'"),
        ('replay: read db3.', 'full stop'),
        ('replay: read db3\nand more', 'second line is not empty'),
    ],
)
def test_the_form_of_a_commit_message_is_checked(message, problem, tmp_path):
    file = tmp_path / 'message'
    file.write_text(message)
    finished = run_hook('commit-message', file)
    assert finished.returncode == (1 if problem else 0)
    assert problem in finished.stderr
    assert bool(finished.stderr) == bool(problem)


def test_every_issue_uses_one_of_the_forms():
    forms = CLONE / '.github/ISSUE_TEMPLATE'
    assert {file.stem for file in forms.iterdir()} == {'bug_report', 'config', 'feature_request'}
    assert yaml.safe_load((forms / 'config.yml').read_text()) == {'blank_issues_enabled': False}
    # GitHub links to it where issues are written.
    assert (CLONE / 'SECURITY.md').is_file()


@pytest.mark.parametrize('form', ['bug_report', 'feature_request'])
def test_issue_forms_ask_for_what_is_needed(form):
    text = (CLONE / f'.github/ISSUE_TEMPLATE/{form}.yml').read_text()
    content = yaml.safe_load(text)
    assert {'name', 'description', 'body'} <= set(content)
    ids = [part['id'] for part in content['body'] if part['type'] != 'markdown']
    assert len(ids) == len(set(ids))
    for part in content['body']:
        assert part['type'] in ('markdown', 'textarea', 'input', 'dropdown', 'checkboxes')
        attributes = part['attributes']
        assert attributes.get('value') if part['type'] == 'markdown' else attributes['label']
        assert part['type'] != 'dropdown' or len(attributes['options']) > 1
    assert 'niom --version' in text
    if form == 'bug_report':
        assert {'ros', 'camera', 'reference', 'diagnostics', 'version'} <= set(ids)


def test_the_citation_is_a_citation_file_of_version_1_2():
    citation = yaml.safe_load((CLONE / 'CITATION.cff').read_text())
    assert set(citation) <= CFF_KEYS
    assert citation['cff-version'] == '1.2.0'
    assert citation['type'] == 'software'
    assert citation['message'] and citation['title'] == 'niom_ros'
    assert citation['authors'] == [{'name': 'niom_ros maintainers'}]
    package = ElementTree.parse(CLONE / 'package.xml').getroot()
    assert citation['version'] == package.findtext('version')
    assert citation['license'] == package.findtext('license')


def test_the_citation_names_the_paper():
    (paper,) = yaml.safe_load((CLONE / 'CITATION.cff').read_text())['references']
    assert set(paper) <= CFF_REFERENCE_KEYS
    assert paper['type'] == 'conference-paper'
    assert paper['title'] == 'Matching Semantically Similar Non-Identical Objects'
    assert paper['year'] == 2026
    assert [set(author) for author in paper['authors']] == [{'given-names', 'family-names'}] * 5
    assert paper['authors'][0]['family-names'] == 'Marumo'
    assert set(paper['conference']) == {'name'}
