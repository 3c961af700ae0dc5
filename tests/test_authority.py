"""`sidecar authority`: what is handed out is what the proxy signs with, and never its key."""

import ssl
from pathlib import Path

from click.testing import CliRunner
from mitmproxy import certs

from sidecar.cli import cli


def run(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(cli, ["authority", *map(str, arguments)])
    return found.exit_code, found.output


def test_it_hands_out_the_authority_without_its_key(tmp_path: Path) -> None:
    confdir, out = tmp_path / "confdir", tmp_path / "out"
    code, said = run(out, "--confdir", confdir)
    assert (code, said.split()) == (0, [str(out / "llm-sidecar.crt"), str(out / "bundle.pem")])
    assert sorted(file.name for file in out.iterdir()) == ["bundle.pem", "llm-sidecar.crt"]
    own = (confdir / "mitmproxy-ca-cert.pem").read_text()
    assert (out / "llm-sidecar.crt").read_text() == own
    for file in out.iterdir():
        assert "PRIVATE" not in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o644
    assert (confdir / "mitmproxy-ca.pem").stat().st_mode & 0o077 == 0
    store = certs.CertStore.from_store(str(confdir), "mitmproxy", 2048)
    assert store.default_ca.to_pem().decode() == own


def test_the_bundle_has_it_beside_the_public_authorities(tmp_path: Path) -> None:
    run(tmp_path, "--confdir", tmp_path / "confdir")
    trusted = ssl.create_default_context(cafile=str(tmp_path / "bundle.pem")).get_ca_certs()
    assert len(trusted) > 50
    names = [dict(part[0] for part in one["subject"]).get("commonName") for one in trusted]  # type: ignore[misc]
    assert names.count("mitmproxy") == 1


def test_again_it_is_the_same_one(tmp_path: Path) -> None:
    run(tmp_path, "--confdir", tmp_path / "confdir")
    first = (tmp_path / "llm-sidecar.crt").read_text()
    assert run(tmp_path, "--confdir", tmp_path / "confdir")[0] == 0
    assert (tmp_path / "llm-sidecar.crt").read_text() == first


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    code, said = run(file / "out", "--confdir", tmp_path / "confdir")
    assert code == 1
    assert said.startswith("Error: cannot write")
    code, said = run(tmp_path / "out", "--confdir", file)
    assert code == 1
    assert "cannot be read or made" in said
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "mitmproxy-ca.pem").write_text("none")
    code, said = run(tmp_path / "out", "--confdir", broken)
    assert code == 1
    assert "cannot be read or made" in said
