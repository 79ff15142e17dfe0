# SPDX-License-Identifier: Apache-2.0
"""manifests_test.py FOLDER: the manifests there are valid in Kubernetes' published schema, which knows every field,
and their pods need no right: no root, no capability, no file that is not a volume's. The only Role has the three verbs
that an election by a Lease uses."""
import os
import pathlib
import sys

try:
    import kubernetes_validate
    import yaml
except ImportError as error:
    python = os.environ.get("DDPRUN_FRAMEWORKS_PYTHON")
    if python and not os.path.samefile(os.path.dirname(python), os.path.dirname(sys.executable)):
        os.execv(python, [python, *sys.argv])
    if os.environ.get("DDPRUN_REQUIRE_TORCH") == "1":
        sys.exit(f"required here: {error}")
    print(f"SKIP manifests: {error}; DDPRUN_FRAMEWORKS_PYTHON names no Python that has it")
    sys.exit(0)

VERSION = "1.37"
SCHEMA_OF_OURS = {"Service", "Job", "Deployment", "ServiceAccount", "Role", "RoleBinding"}
RULES_OF_A_LEASE = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]


def documents_of(path):
    """What the published schema has; of a JobSet, the jobs that it makes."""
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] == "JobSet":
            for row in document["spec"]["replicatedJobs"]:
                assert row["replicas"] == 1, "several jobs repeat an index: one endpoint each, and no world of all"
                yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": row["name"]}, "spec": row["template"]["spec"]}
        else:
            yield document


def check_pod(spec):
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] != 0
    assert spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}


def check_job(spec):
    command = spec["template"]["spec"]["containers"][0]["command"]
    assert f"--nnodes={spec['completions']}" in command and spec["parallelism"] == spec["completions"], command
    # A controller refuses the policy otherwise.
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def main():
    folder = pathlib.Path(sys.argv[1])
    paths = sorted(folder.glob("*.yaml"))
    assert paths, f"no manifest in {folder}"
    for path in paths:
        for document in documents_of(path):
            assert document["kind"] in SCHEMA_OF_OURS, document["kind"]
            kubernetes_validate.validate(document, VERSION, strict=True)
            if document["kind"] == "Role":
                assert document["rules"] == RULES_OF_A_LEASE, document["rules"]
            if "template" in document.get("spec", {}):
                check_pod(document["spec"]["template"]["spec"])
            if document["kind"] == "Job":
                check_job(document["spec"])
    # A schema that accepts everything would show nothing.
    wrong = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": []}}, "completion": 4}}
    try:
        kubernetes_validate.validate(wrong, VERSION, strict=True)
    except kubernetes_validate.ValidationError:
        pass
    else:
        sys.exit("the schema accepts a field that does not exist")
    print(f"{len(paths)} files are valid for Kubernetes {VERSION}")


main()
