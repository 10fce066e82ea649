//! go-redis, with ginkgo. Its tests expect a server on each of seven ports, a Sentinel on each of
//! three, and a Redis Cluster of six nodes, which only the cluster tests use.

use super::Suite;
use super::report::{End, Report, go_test};
use super::setting::{Setting, Side, is_free, read};
use crate::server::Server;
use crate::shell::Failure;
use serde::Deserialize;
use std::fs;
use std::process::{Child, Command, Stdio};

pub(super) const SUITE: Suite<Setting> = Suite {
    name: "go-redis",
    version: "9.9.0",
    prepare,
    run,
    rival: Setting::redis_version,
    not_run: "`ClusterClient`, which needs a Redis Cluster; examples, which check one order of a map. Tests of Ring \
        and of Sentinel run with three and three servers of each side; the Sentinels are Redis's own in both runs.",
};

fn prepare(setting: &Setting) -> Result<(), Failure> {
    let folder = setting.go_module(MODULE)?;
    let built = setting.work.join("go-redis.test");
    let compile = setting.shell.program("go", ["test", "-c", "-o"]);
    compile
        .argument(built)
        .folder(&folder)
        .env("GOFLAGS", "-mod=readonly")
        .run()
}

fn run(setting: &Setting, side: Side) -> Result<Report, Failure> {
    let source = setting.go_module(MODULE)?;
    let results = setting.folder("go-redis")?.join("results.json");
    let servers: Result<Vec<Server>, Failure> = SERVERS
        .iter()
        .map(|&port| setting.server(side, port))
        .collect();
    let _servers = servers?;
    let sentinels = SENTINELS
        .iter()
        .map(|&port| Companion::sentinel(setting, port));
    let nodes = NODES.iter().map(|&port| Companion::node(setting, port));
    let _companions: Vec<Companion> = sentinels.chain(nodes).collect::<Result<_, Failure>>()?;
    let program = setting
        .shell
        .program(
            setting.work.join("go-redis.test"),
            [
                "-test.v",
                "-test.run=^Test",
                "-test.timeout=20m",
                "-ginkgo.no-color",
            ],
        )
        .argument("-ginkgo.skip=ClusterClient")
        .argument("-ginkgo.seed=1")
        .argument(format!("-ginkgo.json-report={}", results.display()))
        .folder(&source)
        .env("REDIS_VERSION", "8.0")
        .env("RUN_MONITOR_TEST", "true");
    let said = setting.logged("go-redis", side, program)?;
    let mut report = Report::default();
    // Go's own tests; all of ginkgo's are one of them.
    for (test, end) in go_test(&said)
        .ends()
        .filter(|(test, _)| *test != "TestGinkgoSuite")
    {
        report.add(&format!("go test {test}"), end.clone());
    }
    parse(&read(&results)?, &mut report)?;
    Ok(report)
}

/// A Redis that the tests need, and that is not under test.
struct Companion(Child);

impl Companion {
    fn sentinel(setting: &Setting, port: u16) -> Result<Self, Failure> {
        let folder = setting.folder(&format!("sentinel-{port}"))?;
        let failed = |error| Failure::new(format!("sentinel: {error}"));
        fs::write(folder.join("sentinel.conf"), format!("port {port}\n")).map_err(failed)?;
        let mut command = Command::new(&setting.redis);
        command
            .args(["sentinel.conf", "--sentinel"])
            .current_dir(&folder);
        Self::start(&mut command, port)
    }

    fn node(setting: &Setting, port: u16) -> Result<Self, Failure> {
        let folder = setting.folder(&format!("node-{port}"))?;
        let mut command = Command::new(&setting.redis);
        command
            .args(["--cluster-enabled", "yes", "--save", "", "--port"])
            .arg(port.to_string())
            .current_dir(&folder);
        Self::start(&mut command, port)
    }

    fn start(command: &mut Command, port: u16) -> Result<Self, Failure> {
        is_free(port)?;
        let quiet = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // The tests wait until it answers.
        let child = quiet.spawn();
        child
            .map(Self)
            .map_err(|error| Failure::new(format!("redis-server: {error}")))
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The report of ginkgo.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ginkgo {
    spec_reports: Vec<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    failure: Option<Fault>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Fault {
    #[serde(default)]
    message: String,
}

fn parse(text: &str, report: &mut Report) -> Result<(), Failure> {
    let told: Vec<Ginkgo> =
        serde_json::from_str(text).map_err(|error| Failure::new(format!("ginkgo: {error}")))?;
    let specs = told.into_iter().flat_map(|one| one.spec_reports);
    for spec in specs.filter(|spec| spec.leaf_node_type == "It") {
        let mut words = spec.container_hierarchy_texts.unwrap_or_default();
        words.push(spec.leaf_node_text);
        let end = match spec.state.as_str() {
            "passed" => End::Passed,
            "skipped" | "pending" => End::Skipped,
            _ => End::Failed(spec.failure.map_or(String::new(), |fault| fault.message)),
        };
        report.add(&words.join(" "), end);
    }
    Ok(())
}

const MODULE: &str = "github.com/redis/go-redis/v9@v9.9.0";
/// A single server, three of a ring, and a master with two replicas.
const SERVERS: [u16; 7] = [6379, 6390, 6391, 6392, 9121, 9122, 9123];
const SENTINELS: [u16; 3] = [26379, 26380, 26381];
const NODES: [u16; 6] = [16600, 16601, 16602, 16603, 16604, 16605];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ginkgo_is_read() {
        let text = r#"[{"SpecReports": [
            {"ContainerHierarchyTexts": ["a", "b"], "LeafNodeType": "It", "LeafNodeText": "c",
             "State": "passed"},
            {"ContainerHierarchyTexts": null, "LeafNodeType": "BeforeSuite", "LeafNodeText": "",
             "State": "passed"},
            {"ContainerHierarchyTexts": null, "LeafNodeType": "It", "LeafNodeText": "d",
             "State": "panicked", "Failure": {"Message": "nil"}}]}]"#;
        let mut report = Report::default();
        parse(text, &mut report).unwrap();
        assert_eq!(report.counts(), [1, 1, 0]);
        assert_eq!(report.end("a b c"), Some(&End::Passed));
        assert_eq!(report.end("d"), Some(&End::Failed("nil".into())));
    }
}
