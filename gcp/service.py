"""Vertex AI through Google's own client: checks before submission, submission, errors as one sentence."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import google.auth
import google.auth.exceptions
import requests
from google.api_core import exceptions
from google.api_core.client_options import ClientOptions
from google.auth.transport.requests import AuthorizedSession
from google.cloud.aiplatform_v1.services.job_service import JobServiceClient
from google.cloud.aiplatform_v1.types import CustomJob, HyperparameterTuningJob

from seed_rl.flags.errors import UsageError

_SECONDS = 60.0
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
# A job that is being cancelled still writes its last checkpoint.
_LIVING = ("QUEUED", "PENDING", "RUNNING", "CANCELLING", "PAUSED", "UPDATING")
_UNENDED = " OR ".join(f'state="JOB_STATE_{state}"' for state in _LIVING)
_MANIFESTS = ("vnd.oci.image.index.v1", "vnd.oci.image.manifest.v1", "vnd.docker.distribution.manifest.v2")
_REGISTRIES = (".pkg.dev", "gcr.io")

Request = CustomJob | HyperparameterTuningJob


@dataclasses.dataclass(frozen=True)
class Service:
    """Connections to one region.

    Attributes:
      jobs: the client of Vertex AI.
      session: for Cloud Storage and the registry, with the user's credentials.
      storage: address of Cloud Storage.
    """

    jobs: JobServiceClient
    session: requests.Session
    storage: str = "https://storage.googleapis.com"

    def bucket_problem(self, directory: str, region: str) -> str | None:
        """Why the bucket of a directory gs://BUCKET/… cannot be seen; None if it can. `region` is the job's.

        Raises:
          UsageError: there is no such bucket, or its data are in more than one region.
        """
        bucket = directory.removeprefix("gs://").partition("/")[0]
        url = f"{self.storage}/storage/v1/b/{bucket}?fields=location,locationType"
        command = f"gcloud storage buckets create gs://NAME --location={region}"
        hint = f"run {command}, and set bucket in the job's file"
        answer = self._ask("GET", url)
        if answer.status_code == 404:
            raise UsageError(f"There is no bucket gs://{bucket}; {hint}.")
        if answer.status_code != 200:
            return f"gs://{bucket} cannot be seen with these credentials ({answer.status_code})"
        found = _json(answer)
        kind = found.get("locationType", "region")
        if kind != "region":
            raise UsageError(
                f"gs://{bucket} is a {kind} bucket ({found.get('location')}), which Vertex AI's training "
                f"does not support; {hint}."
            )
        return None

    def image_problem(self, image: str) -> str | None:
        """Why an image cannot be seen; None if it can. Registries other than Google's are not checked.

        Raises:
          UsageError: the registry has no such image.
        """
        host, _, rest = image.partition("/")
        is_local = host.partition(":")[0] == "127.0.0.1"  # Plain HTTP, as docker uses there.
        if not (is_local or host.endswith(_REGISTRIES)):
            return f"{image} is in a registry that is not checked here"
        separator = "@" if "@" in rest else ":"
        path, _, reference = rest.partition(separator)
        url = f"{'http' if is_local else 'https'}://{host}/v2/{path}/manifests/{reference or 'latest'}"
        accepted = ", ".join(f"application/{kind}+json" for kind in _MANIFESTS)
        status = self._ask("HEAD", url, Accept=accepted).status_code
        if status == 404:
            raise UsageError(f"There is no image {image}; push it with gcp/build_images.sh.")
        return None if status == 200 else f"{image} cannot be seen with these credentials ({status})"

    def unended(self, parent: str) -> set[str]:
        """Display names of the jobs of a project and region that have not ended."""
        with one_sentence(parent):
            custom = self.jobs.list_custom_jobs({"parent": parent, "filter": _UNENDED}, timeout=_SECONDS)
            tuning = self.jobs.list_hyperparameter_tuning_jobs(
                {"parent": parent, "filter": _UNENDED}, timeout=_SECONDS
            )
            return {job.display_name for pager in (custom, tuning) for job in pager}

    def create(self, parent: str, request: Request) -> str:
        """Submits a job and returns its resource name."""
        with one_sentence(parent):
            made: Any
            if isinstance(request, CustomJob):
                made = self.jobs.create_custom_job(parent=parent, custom_job=request, timeout=_SECONDS)
            else:
                made = self.jobs.create_hyperparameter_tuning_job(
                    parent=parent, hyperparameter_tuning_job=request, timeout=_SECONDS
                )
            return made.name

    def _ask(self, method: str, url: str, **headers: str) -> requests.Response:
        try:
            return self.session.request(method, url, headers=headers, timeout=_SECONDS)
        except (requests.RequestException, google.auth.exceptions.TransportError) as error:
            raise UsageError(
                f"{url} cannot be reached ({type(error).__name__}); check the network."
            ) from None
        except google.auth.exceptions.GoogleAuthError as error:
            raise _no_credentials(error) from None


def connect(region: str) -> Service:
    """Connects with the application default credentials of this machine; UsageError if there are none."""
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except google.auth.exceptions.GoogleAuthError as error:
        raise _no_credentials(error) from None
    options = ClientOptions(api_endpoint=f"{region}-aiplatform.googleapis.com")
    client = JobServiceClient(credentials=credentials, client_options=options)
    return Service(client, AuthorizedSession(credentials))


@contextlib.contextmanager
def one_sentence(parent: str) -> Iterator[None]:
    """Turns errors of the service into a UsageError that says what to change."""
    project, region = parent.split("/")[1::2]
    try:
        yield
    except (google.auth.exceptions.GoogleAuthError, exceptions.Unauthenticated) as error:
        raise _no_credentials(error) from None
    except exceptions.GoogleAPICallError as error:
        if "metadata from plugin failed" in error.message:  # A token cannot be refreshed.
            raise _no_credentials(error) from None
        raise UsageError(f"{_what(error, project, region)} ({_first_line(error.message)}).") from None


def _what(error: exceptions.GoogleAPICallError, project: str, region: str) -> str:
    """Our half of the sentence for an error of the service; the other half is the service's own."""
    place = f"project {project} in region {region}"
    silent = f"Vertex AI does not answer for region {region}; check --region and the network"
    texts: dict[type[exceptions.GoogleAPICallError], str] = {
        exceptions.Forbidden: f"No permission to submit jobs, or Vertex AI is not enabled, in {place}",
        exceptions.NotFound: f"There is no {place}, or something that the job refers to does not exist",
        exceptions.BadRequest: "Vertex AI refuses the job; fix what it names",
        exceptions.TooManyRequests: f"The quota of {place} is too small; request more, or use less",
        exceptions.ServiceUnavailable: silent,
        exceptions.DeadlineExceeded: silent,
        exceptions.Conflict: "Vertex AI already has such a job",
    }
    return next(
        (text for kind, text in texts.items() if isinstance(error, kind)), "Vertex AI failed; try again"
    )


def _json(answer: requests.Response) -> dict[str, Any]:
    """The content of an answer; an empty dict if it is not a JSON mapping."""
    with contextlib.suppress(ValueError):
        content = answer.json()
        if isinstance(content, dict):
            return content
    return {}


def _no_credentials(error: Exception) -> UsageError:
    return UsageError(
        "There are no credentials that Google Cloud accepts; run gcloud auth application-default login, or "
        f"set GOOGLE_APPLICATION_CREDENTIALS ({_first_line(str(error))})."
    )


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[0].rstrip(".")
