"""Settings from file, environment and flags; every mistake is one line that names the setting."""

from pathlib import Path

import pytest

from sidecar.config import OPTIONS, ConfigError, Settings, host_port, load_settings


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        'listen = "127.0.0.1:1"\nmetrics_listen = "127.0.0.1:2"\nmax_models = 3\n[stalls]\nmid_stream = 7\n'
    )
    environment = {
        "SIDECAR_METRICS_LISTEN": "127.0.0.1:20",
        "SIDECAR_MAX_MODELS": "30",
        "SIDECAR_STALLS_AFTER_FINISH": "1.5",
    }
    settings = load_settings(file=file, environment=environment, flags={"max_models": 300, "upstream": None})
    assert (settings.listen, settings.metrics_listen, settings.max_models) == ("127.0.0.1:1", "127.0.0.1:20", 300)
    assert (settings.stalls.mid_stream, settings.stalls.after_finish) == (7.0, 1.5)
    assert settings.upstream is None


def test_lists_in_the_environment_are_separated_by_white_space() -> None:
    assert load_settings(environment={"SIDECAR_MODE": "regular@1 transparent@2"}).mode == ("regular@1", "transparent@2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nope = 1", "nope"),
        ("max_models = 0", "max_models"),
        ("max_models = 'many'", "max_models"),
        ("listen = 'nowhere'", "listen is 'nowhere', not HOST:PORT"),
        ("log_level = 'loud'", "log_level is 'loud'"),
        ("[stalls]\nmid_streem = 1", "mid_streem"),
        ("= 1", "is no TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_settings(file=file, environment={})
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_unreadable_file_and_an_unknown_variable_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*missing\.toml: No such file"):
        load_settings(file=tmp_path / "missing.toml", environment={})
    with pytest.raises(ConfigError, match="SIDECAR_UPSTREEM"):
        load_settings(environment={"SIDECAR_UPSTREEM": "http://x"})


@pytest.mark.parametrize(
    ("text", "apart"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:9464", ("::1", 9464)), ("host:0", ("host", 0))],
)
def test_addresses_come_apart(text: str, apart: tuple[str, int]) -> None:
    assert host_port(text, "listen") == apart


@pytest.mark.parametrize("text", ["80", ":80", "host:", "host:x", "host:99999", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="listen is"):
        host_port(text, "listen")


def test_every_setting_of_the_proxy_side_is_an_option_of_mitmproxy_with_a_help_text() -> None:
    names = {option.name.removeprefix("sidecar_") for option in OPTIONS}
    assert {"config", "socket", "metrics_listen", "include", "exclude", "outbox_mib"} <= names
    assert names - {"config"} <= set(Settings.__struct_fields__)
    assert all(option.help for option in OPTIONS)
