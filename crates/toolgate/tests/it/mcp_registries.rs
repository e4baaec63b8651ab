//! Registries as companies have them: a private address, a private authority, certificates and a proxy that only the files of the package managers name.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::json;

use crate::fixture::CliFixture;
use crate::mcp_packages::{SERVER, text};

const REGISTRY: &str = include_str!("data/registry.py");
const PROXY: &str = include_str!("data/connect_proxy.py");
const PYTHON_SERVER: &str = include_str!("data/packaged_server.py");

/// Variables of the machine that would say the same as the files.
const CONFIGURING: [&str; 17] = [
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_CONFIG_FILE",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_CONFIG_FILE",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "NPM_CONFIG_USERCONFIG",
    "npm_config_userconfig",
    "npm_config_cafile",
];

/// A process of the test that prints its port first.
struct Service(Child, BufReader<ChildStdout>, u16);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Service {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        lines.read_line(&mut port).unwrap();
        Self(child, lines, port.trim().parse().unwrap())
    }
}

/// A registry with a private authority, and a home where the sandbox shows files.
struct Company {
    place: CliFixture,
    home: tempfile::TempDir,
    registry: Service,
}

impl Company {
    fn new(host: &str) -> Self {
        let place = CliFixture::new();
        place.write("registry.py", REGISTRY);
        let root = place.scratch.path().join("registry");
        std::fs::create_dir_all(&root).unwrap();
        // Below `/dev/shm` or `/tmp` no command sees a file.
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        certify(&root, host);
        std::fs::copy(root.join("ca.pem"), home.path().join("company-ca.pem")).unwrap();
        let mut command = Command::new("python3");
        let registry =
            Service::start(command.arg(place.scratch.path().join("registry.py")).arg(&root).arg(host));
        Self { place, home, registry }
    }

    fn authority(&self) -> PathBuf {
        self.home.path().join("company-ca.pem")
    }

    fn write_home(&self, path: &str, content: &str) {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn publish_python(&self, name: &str) {
        self.place.write(&format!("registry/{name}/1.0.0/{name}.py"), PYTHON_SERVER);
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
        let mut command = self.place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        command.args(arguments);
        for name in CONFIGURING {
            command.env_remove(name);
        }
        let own: PathBuf = self.home.path().join(".local/bin");
        let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
        command.env("HOME", self.home.path()).env("PATH", path).envs(variables.iter().copied());
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        (status.code().unwrap(), text)
    }

    fn install(&self, name: &str, package: &str, variables: &[(&str, &str)]) -> (i32, String) {
        self.place.write(
            "toolgate.yaml",
            &format!("mcp_servers:\n  {name}: {{package: \"{package}\", class: read}}\n"),
        );
        self.run(&["mcp", "update", name, "--yes"], variables)
    }

    fn requests(&self) -> String {
        std::fs::read_to_string(self.place.scratch.path().join("registry/requests.log")).unwrap_or_default()
    }
}

/// An authority of its own, and a certificate of it for this host and for 127.0.0.1.
fn certify(root: &Path, host: &str) {
    std::fs::write(root.join("names"), format!("subjectAltName=DNS:{host},IP:127.0.0.1\n")).unwrap();
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=company"];
    let authority = ["req", "-x509", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem"];
    let request = ["req", "-keyout", "key.pem", "-out", "request.pem"];
    let signed = "x509 -req -days 2 -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out cert.pem";
    for arguments in
        [[&authority[..], &key].concat(), [&request[..], &key].concat(), signed.split(' ').collect()]
    {
        let made = Command::new("openssl").args(&arguments).current_dir(root).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

#[test]
fn npm_installs_from_a_mirror_whose_certificate_its_own_file_names() {
    let company = Company::new("localhost");
    company.place.write(
        "registry/inner/1.0.0/package.json",
        &json!({"name": "inner", "version": "1.0.0", "bin": {"inner": "server.js"}}).to_string(),
    );
    company.place.write("registry/inner/1.0.0/server.js", SERVER);
    let registry = format!("registry=https://localhost:{}/\n", company.registry.2);
    company.write_home(".npmrc", &format!("{registry}fetch-retries=0\n"));
    let (code, said) = company.install("inner", "npm:inner", &[]);
    assert!(code == 1 && said.contains("UNABLE_TO"), "an unknown authority is refused: {said}");
    company.write_home(".npmrc", &format!("{registry}cafile={}\n", company.authority().display()));
    let (code, said) = company.install("inner", "npm:inner", &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("installed 1.0.0 (npm "), "{said}");
    assert!(text(&company.place.call("inner__echo", &json!({"text": "tea"})).1).contains("tea"));
}

#[test]
fn pip_installs_from_an_index_whose_archives_are_on_another_host() {
    let company = Company::new("localhost");
    company.publish_python("plainserver");
    let index = format!("[global]\nindex-url = https://127.0.0.1:{}/simple\n", company.registry.2);
    let authority = format!("{index}cert = {}\n", company.authority().display());
    company.write_home(".config/pip/pip.conf", &authority);
    let (code, said) = company.install("plain", "pypi:plainserver", &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("installed 1.0.0"), "{said}");
    assert!(company.requests().contains("/archives/plainserver-1.0.0"), "{}", company.requests());
    let answer = company.place.call("plain__where", &json!({})).1;
    assert!(text(&answer).contains("/toolgate/package/venv/"), "{answer}");
}

#[test]
fn uv_installs_from_an_index_that_only_its_own_file_names() {
    let Some(uv) = installed("uv") else {
        println!("note: there is no uv here");
        return;
    };
    let company = Company::new("localhost");
    company.publish_python("plainserver");
    std::fs::create_dir_all(company.home.path().join(".local/bin")).unwrap();
    std::fs::copy(uv, company.home.path().join(".local/bin/uv")).unwrap();
    let index =
        format!("[[index]]\nurl = \"https://127.0.0.1:{}/simple\"\ndefault = true\n", company.registry.2);
    company.write_home(".config/uv/uv.toml", &index);
    let authority = company.authority();
    let (code, said) =
        company.install("plain", "pypi:plainserver", &[("SSL_CERT_FILE", authority.to_str().unwrap())]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("installed 1.0.0 (uv "), "{said}");
    assert!(company.requests().contains("/archives/plainserver-1.0.0"), "{}", company.requests());
    let answer = company.place.call("plain__where", &json!({})).1;
    assert!(text(&answer).contains("/toolgate/package/venv/"), "{answer}");
}

#[test]
fn a_registry_behind_a_proxy_is_reached_by_its_name() {
    // No resolver knows it: the proxy does.
    let company = Company::new("registry.test");
    company.place.write(
        "registry/inner/1.0.0/package.json",
        &json!({"name": "inner", "version": "1.0.0", "bin": {"inner": "server.js"}}).to_string(),
    );
    company.place.write("registry/inner/1.0.0/server.js", SERVER);
    company.place.write("proxy.py", PROXY);
    let mut proxy =
        Service::start(Command::new("python3").arg(company.place.scratch.path().join("proxy.py")));
    let target = format!("registry.test:{}", company.registry.2);
    let file = format!("registry=https://{target}/\ncafile={}\n", company.authority().display());
    company.write_home(".npmrc", &file);
    let url = format!("http://worker:secret@127.0.0.1:{}", proxy.2);
    let (code, said) = company.install("inner", "npm:inner", &[("HTTPS_PROXY", &url)]);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("secret"), "{said}");
    let mut asked = String::new();
    proxy.1.read_line(&mut asked).unwrap();
    assert_eq!(asked.trim(), target);
    assert!(text(&company.place.call("inner__echo", &json!({"text": "tea"})).1).contains("tea"));
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())
}
