//! `kubectl attach`.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;

use crate::support::{Kubectl, shared};

#[tokio::test]
async fn attach_connects_to_the_input_and_the_output_of_a_container() {
    let shared = shared().await;
    let kubectl = Kubectl::new(shared.cluster, "attach").await;
    kubectl
        .apply(
            "
apiVersion: v1
kind: Pod
metadata: {name: echo, namespace: NAMESPACE}
spec:
  restartPolicy: Never
  containers:
    - name: echo
      image: busybox:1.36
      command: [sh, -c, 'while read line; do echo \"received $line\"; done']
      stdin: true
      stdinOnce: true
",
        )
        .await;
    kubectl.ready("echo").await;
    let mut attach = kubectl
        .command()
        .args(["attach", "--stdin", "--quiet", "echo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    attach.stdin.take().unwrap().write_all(b"one\ntwo\n").await.unwrap();
    let output = attach.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(stdout, "received one\nreceived two\n");
    // With the end of its input, the container ends.
    kubectl.until("get pod echo -o jsonpath={.status.phase}", |phase| phase == "Succeeded").await;
    assert_eq!(kubectl.run("logs echo").await.unwrap(), stdout);
}
