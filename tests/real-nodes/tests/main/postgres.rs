//! The image of PostgreSQL.

use crate::support::{Kubectl, shared};

const PATH: &str = "/var/lib/postgresql/data/pgdata";

#[tokio::test]
async fn postgres_initializes_a_volume_and_answers_queries() {
    let shared = shared().await;
    let kubectl = Kubectl::new(shared.cluster, "postgres").await;
    kubectl
        .apply(&format!(
            "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data, namespace: NAMESPACE}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 64Mi}}}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: superuser, namespace: NAMESPACE}}
stringData: {{password: a-password}}
---
apiVersion: v1
kind: Pod
metadata: {{name: postgres, namespace: NAMESPACE, labels: {{run: postgres}}}}
spec:
  securityContext: {{runAsNonRoot: true, runAsUser: 999, runAsGroup: 999, fsGroup: 999, seccompProfile: {{type: RuntimeDefault}}}}
  initContainers:
    - name: initdb
      image: postgres:17
      command: [sh, -c, 'initdb --pgdata={PATH} --auth-host=scram-sha-256 --pwfile=/superuser/password && echo host all all all scram-sha-256 >> {PATH}/pg_hba.conf']
      volumeMounts: &mounts
        - {{name: data, mountPath: /var/lib/postgresql/data}}
        - {{name: superuser, mountPath: /superuser}}
  containers:
    - name: postgres
      image: postgres:17
      args: [postgres, -D, {PATH}, -c, 'listen_addresses=*']
      readinessProbe: {{exec: {{command: [pg_isready]}}, periodSeconds: 1}}
      volumeMounts: *mounts
      securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
  volumes:
    - {{name: data, persistentVolumeClaim: {{claimName: data}}}}
    - {{name: superuser, secret: {{secretName: superuser}}}}
"
        ))
        .await;
    kubectl.run("expose pod postgres --port=5432").await.unwrap();
    kubectl.ready("postgres").await;
    assert_eq!(kubectl.exec("postgres", "psql --tuples-only --no-align -c 'select 1'").await.unwrap(), "1\n");

    // Another Pod needs the password.
    let query = "psql --host=postgres --tuples-only --no-align -c 'select 6 * 7'";
    for (password, answer) in [("a-password", "42\n"), ("wrong", "password authentication failed")] {
        let script = format!("PGPASSWORD={password} {query} 2>&1; true");
        let pod = format!("run {password} --image=postgres:17 --restart=Never -- sh -c");
        let args: Vec<_> = pod.split(' ').chain([script.as_str()]).collect();
        kubectl.args(&args).await.unwrap();
        let phase = format!("get pod {password} -o jsonpath={{.status.phase}}");
        kubectl.until(&phase, |phase| phase == "Succeeded").await;
        let output = kubectl.run(&format!("logs {password}")).await.unwrap();
        assert!(output.contains(answer), "{output}");
    }
}
