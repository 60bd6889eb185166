"""Checks manifests against the models of the Kubernetes Python client, which are generated from the published OpenAPI schema.

    manifests.py FILE...

Unknown fields, wrong types and missing fields are mistakes. Prints each, and fails if there is one.
"""

import sys
import kubernetes, pydantic, yaml

MODELS = kubernetes.client.models
KINDS = {("v1", "Pod"): MODELS.V1Pod, ("v1", "Namespace"): MODELS.V1Namespace, ("apps/v1", "DaemonSet"): MODELS.V1DaemonSet}

has_mistakes = False
for path in sys.argv[1:]:
    with open(path) as file:
        for document in yaml.safe_load_all(file):
            try:
                KINDS[document["apiVersion"], document["kind"]].model_validate(document)
            except (KeyError, pydantic.ValidationError) as error:
                print(f"{path}: {error}")
                has_mistakes = True
sys.exit(has_mistakes)
