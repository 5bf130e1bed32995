"""What data there are: where they come from, under which licence, and where they belong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eqrm.data.datasets.digits import MNIST_MD5
from eqrm.data.datasets.registry import DATASETS
from eqrm.errors import SettingError, did_you_mean


@dataclass(frozen=True)
class Source:
    """A file to fetch: its mirrors, its place under the data root, and how to know it is right.

    ``md5`` is of the content, after uncompressing if ``file`` ends in .gz. ``size`` is in bytes.
    With ``unpack`` the file is an archive, and this is the folder that its content goes to;
    ``gives`` is something of that content, which shows that it was unpacked.
    """

    urls: tuple[str, ...]
    file: str
    md5: str | None = None
    size: int | None = None
    unpack: str | None = None
    gives: str | None = None

    def done(self, root: Path) -> bool:
        """Whether it was fetched, and unpacked if it is an archive."""
        return (root / (self.gives or self.file)).exists()


@dataclass(frozen=True)
class Published:
    """One dataset as it was published.

    ``places`` are the files or folders under the data root that show that it is there (every
    one is needed, where ``|`` separates alternatives). ``by_hand`` says what to do where no
    mirror answers, or there is none.
    """

    title: str
    size: str
    licence: str
    homepage: str
    places: tuple[str, ...]
    by_hand: str
    sources: tuple[Source, ...] = ()
    datasets: tuple[str, ...] = ()

    def found(self, root: Path) -> bool:
        """Whether all of it is under the data root."""
        return all(
            any((root / place).exists() for place in places.split("|")) for places in self.places
        )


_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
_MOLECULENET = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/"
_DOMAINNET = "http://csr.bu.edu/ftp/visda/2019/multi-source/"
_OGB = "https://snap.stanford.edu/ogb/data/"
_DRIVE = "https://drive.google.com/uc?id="
_BUNDLE = "https://worksheets.codalab.org/rest/bundles/"
_LILA = "https://storage.googleapis.com/public-datasets-lila/caltechcameratraps/"
_SIX_DOMAINS = {
    "clipart": "groundtruth/",
    "infograph": "",
    "painting": "groundtruth/",
    "quickdraw": "",
    "real": "",
    "sketch": "",
}
_NOT_STATED = "not stated by its authors; for research"

CATALOGUE: dict[str, Published] = {
    "mnist": Published(
        title="MNIST: handwritten digits (LeCun et al. 1998)",
        size="60,000 + 10,000 digits of 28 × 28; 11 MB",
        licence="CC BY-SA 3.0",
        homepage="http://yann.lecun.com/exdb/mnist/",
        places=tuple(
            "|".join(
                f"{place}{name}{end}" for place in ("mnist/", "MNIST/raw/") for end in ("", ".gz")
            )
            for name in MNIST_MD5
        ),
        by_hand="Put the four idx files, plain or .gz, into the folder mnist/.",
        sources=tuple(
            Source(tuple(f"{mirror}{name}.gz" for mirror in _MNIST), f"mnist/{name}.gz", md5)
            for name, md5 in MNIST_MD5.items()
        ),
        datasets=("colored-mnist", "rotated-mnist"),
    ),
    "pacs": Published(
        title="PACS: art paintings, cartoons, photographs, sketches (Li et al. 2017)",
        size="9,991 images, 4 domains, 7 classes; 174 MB",
        licence=_NOT_STATED,
        homepage="https://dali-dl.github.io/project_iccv2017.html",
        places=("PACS|pacs/kfold|pacs/PACS.zip|pacs/pacs_128px.zip|PACS.zip",),
        by_hand=(
            f"Fetch PACS.zip from {_DRIVE}1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd with a browser and put "
            "it into the folder pacs/. It is read without being unpacked."
        ),
    ),
    "vlcs": Published(
        title="VLCS: Caltech101, LabelMe, SUN09, VOC2007 (Fang et al. 2013)",
        size="10,729 images, 4 domains, 5 classes; 3.6 GB",
        licence=_NOT_STATED,
        homepage="https://github.com/belaalb/G2DM#download-vlcs",
        places=("VLCS|vlcs",),
        by_hand=(
            f"Fetch VLCS.tar.gz from {_DRIVE}1skwblH1_okBwxWxmRsp9_qi15hyPpxg8 with a browser and "
            "unpack it, so that there is VLCS/domain/class/*.jpg."
        ),
    ),
    "officehome": Published(
        title="OfficeHome: objects of office and home (Venkateswara et al. 2017)",
        size="15,588 images, 4 domains, 65 classes; 1.1 GB",
        licence="non-commercial research",
        homepage="https://www.hemanthdv.org/officeHomeDataset.html",
        places=("office_home|officehome|OfficeHomeDataset_10072016",),
        by_hand=(
            "Fetch the archive that the homepage links to, unpack it, and rename its folder "
            "OfficeHomeDataset_10072016 to office_home, so that there is "
            "office_home/domain/class/*.jpg."
        ),
    ),
    "terraincognita": Published(
        title="TerraIncognita: animals at four camera traps (Beery et al. 2018)",
        size="24,788 images, 4 domains, 10 classes; 6 GB to fetch",
        licence="CDLA-Permissive-1.0",
        homepage="https://lila.science/datasets/caltech-camera-traps",
        places=(
            "terra_incognita/location_38|terra_incognita/eccv_18_all_images_sm|terraincognita",
        ),
        by_hand=(
            "Fetch eccv_18_all_images_sm.tar.gz and caltech_camera_traps.json.zip from the "
            "homepage and unpack both into terra_incognita/."
        ),
        sources=(
            Source(
                (f"{_LILA}eccv_18_all_images_sm.tar.gz",),
                "terra_incognita/eccv_18_all_images_sm.tar.gz",
                unpack="terra_incognita",
                gives="terra_incognita/eccv_18_all_images_sm",
            ),
            Source(
                (f"{_LILA}labels/caltech_camera_traps.json.zip",),
                "terra_incognita/caltech_camera_traps.json.zip",
                unpack="terra_incognita",
                gives="terra_incognita/caltech_images_20210113.json",
            ),
        ),
    ),
    "domainnet": Published(
        title="DomainNet: clip art, infographics, paintings, … (Peng et al. 2019)",
        size="586,575 images, 6 domains, 345 classes; 18 GB",
        licence="non-commercial research",
        homepage="http://ai.bu.edu/M3SDA/",
        places=tuple(f"domain_net/{domain}|domainnet/{domain}" for domain in _SIX_DOMAINS),
        by_hand=(
            "Fetch the six archives from the homepage (clipart and painting: the cleaned versions) "
            "and unpack them into domain_net/, so that there is domain_net/domain/class/*.jpg."
        ),
        sources=tuple(
            Source(
                (f"{_DOMAINNET}{path}{domain}.zip",),
                f"domain_net/{domain}.zip",
                unpack="domain_net",
                gives=f"domain_net/{domain}",
            )
            for domain, path in _SIX_DOMAINS.items()
        ),
    ),
    "iwildcam": Published(
        title="iWildCam2020-WILDS 2.0: species at camera traps (Beery et al. 2020)",
        size="203,029 images, 323 domains, 182 classes; 12 GB",
        licence="CDLA-Permissive-1.0",
        homepage="https://wilds.stanford.edu/datasets/#iwildcam",
        places=(
            "iwildcam_v2.0/metadata.csv|iwildcam/metadata.csv",
            "iwildcam_v2.0/train|iwildcam/train",
        ),
        by_hand=(
            "Fetch it with the wilds package (wilds.get_dataset('iwildcam', download=True)) and "
            "move its folder iwildcam_v2.0 to the data root."
        ),
        sources=(
            Source(
                (f"{_BUNDLE}0x6313da2b204647e79a14b468131fcd64/contents/blob/",),
                "iwildcam_v2.0.tar.gz",
                size=11_957_420_032,
                unpack="iwildcam_v2.0",
                gives="iwildcam_v2.0/train",
            ),
        ),
    ),
    "ogb-molpcba": Published(
        title="OGB-MolPCBA: 128 assays of molecules (Hu et al. 2020; Koh et al. 2021)",
        size="437,929 molecules, 120,084 domains, 128 tasks; 250 MB",
        licence="MIT",
        homepage="https://ogb.stanford.edu/docs/graphprop/#ogbg-mol",
        places=("ogbg_molpcba/raw|pcba/raw|ogbg_molpcba_pyg/raw",),
        by_hand=(
            f"Fetch {_OGB}graphproppred/csv_mol_download/pcba.zip, unpack it and rename its folder "
            f"pcba to ogbg_molpcba; put {_OGB}misc/ogbg_molpcba/scaffold_group.npy into "
            "ogbg_molpcba/raw/."
        ),
        sources=(
            Source(
                (f"{_OGB}graphproppred/csv_mol_download/pcba.zip",),
                "pcba.zip",
                unpack=".",
                gives="pcba/raw",
            ),
            Source((f"{_OGB}misc/ogbg_molpcba/scaffold_group.npy",), "pcba/raw/scaffold_group.npy"),
        ),
    ),
    "hiv": Published(
        title="HIV: which molecules inhibit HIV replication (MoleculeNet; Wu et al. 2018)",
        size="41,127 molecules, 19,082 domains; 2 MB",
        licence="MIT",
        homepage="https://moleculenet.org/datasets-1",
        places=("molecules/hiv.csv.gz|molecules/HIV.csv",),
        by_hand="Put hiv.csv.gz (columns smiles, HIV_active) or HIV.csv into molecules/.",
        sources=(Source((f"{_MOLECULENET}HIV.csv",), "molecules/HIV.csv"),),
    ),
    "tox21": Published(
        title="Tox21: 12 tests of toxicity (MoleculeNet; Wu et al. 2018)",
        size="about 8,000 molecules, 2,325 domains; 0.1 MB",
        licence="MIT",
        homepage="https://moleculenet.org/datasets-1",
        places=("molecules/tox21.csv.gz",),
        by_hand="Put tox21.csv.gz (column smiles, 12 columns of labels) into molecules/.",
        sources=(Source((f"{_MOLECULENET}tox21.csv.gz",), "molecules/tox21.csv.gz"),),
    ),
    "muv": Published(
        title="MUV: 17 targets, most labels missing (MoleculeNet; Wu et al. 2018)",
        size="93,127 molecules, 42,595 domains; 2 MB",
        licence="MIT",
        homepage="https://moleculenet.org/datasets-1",
        places=("molecules/muv.csv.gz",),
        by_hand="Put muv.csv.gz (column smiles, 17 columns of labels) into molecules/.",
        sources=(Source((f"{_MOLECULENET}muv.csv.gz",), "molecules/muv.csv.gz"),),
    ),
}
"""Name → what was published. ``datasets`` names what is made of it; by default itself."""


def published(name: str) -> tuple[str, Published]:
    """The entry behind a name; a dataset that is made of another finds the other.

    >>> published("ColoredMNIST")[0]
    'mnist'
    """
    plain = str(name).lower().replace("-", "").replace("_", "")
    for key, entry in CATALOGUE.items():
        if plain in (made.replace("-", "") for made in (key, *entry.datasets)):
            return key, entry
    if plain in (own.replace("-", "") for own in DATASETS):
        raise SettingError(
            f"There is nothing to fetch for {name!r}: it comes with eqrm, or reads files of your "
            f"own. 'eqrm data info {name}' says what it needs."
        )
    choices = [made for key, entry in CATALOGUE.items() for made in (key, *entry.datasets)]
    raise SettingError(f"There is no dataset {name!r} to fetch. {did_you_mean(name, choices)}")
