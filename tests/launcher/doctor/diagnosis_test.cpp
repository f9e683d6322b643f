#include "launcher/doctor/diagnosis.hpp"

#include <cerrno>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr auto kOk = FindingState::ok;
constexpr auto kWarning = FindingState::warning;
constexpr auto kProblem = FindingState::problem;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Of that state, with that word in its line; with a remedy wherever one is needed.
void check_finding(const Finding& finding, FindingState state, const std::string& word) {
    INFO(line_of(finding));
    CHECK(finding.state == state);
    CHECK(line_of(finding).find(word) != std::string::npos);
    CHECK(finding.remedy.empty() == (state == kOk));
}

const std::vector<LocalAddress> kLoopback = {{"lo", "127.0.0.1", true}};
const std::vector<LocalAddress> kOwn = {{"lo", "127.0.0.1", true}, {"eth0", "10.0.0.5", false}};

NameFacts name_of(std::vector<std::string> addresses, std::string why = "") {
    return {AnswerEnd::answered, std::move(addresses), std::move(why)};
}

GpuFacts gpus_of(int count, int usable, std::string driver) {
    GpuFacts facts;
    facts.gpus.gpus.resize(static_cast<std::size_t>(count));
    facts.gpus.source = facts.devices.source = "/dev/nvidia*";
    facts.devices.count = usable;
    facts.driver = std::move(driver);
    return facts;
}

LimitsFacts files_of(std::optional<std::uint64_t> soft, std::optional<std::uint64_t> hard) {
    LimitsFacts limits;
    limits.open_files = {soft, hard};
    limits.descriptors_needed = 68;
    return limits;
}

FolderFacts folder_of(std::uint64_t free) {
    FolderFacts folder;
    folder.role = "temporary files";
    folder.path = folder.tried = "/scratch";
    folder.size = 8 * kGiB;
    folder.free = free;
    return folder;
}

FolderFacts folder_failed(const std::string& step, int error_number) {
    FolderFacts folder = folder_of(0);
    folder.failed_step = step;
    folder.error_number = error_number;
    return folder;
}

}  // namespace

TEST_CASE("doctor: the clock") {
    check_finding(clock_finding({true, ""}), kOk, "synchronised");
    check_finding(clock_finding({false, ""}), kWarning, "not synchronised");
    check_finding(clock_finding({std::nullopt, "Operation not permitted"}), kWarning,
                  "Operation not permitted");
}

TEST_CASE("doctor: the host's name") {
    check_finding(name_finding("gpu01", name_of({"10.0.0.5"}), kOwn), kOk, "gpu01 stands for 10.0.0.5");
    check_finding(name_finding("gpu01", name_of({"127.0.1.1"}), kOwn), kWarning, "--master-addr 10.0.0.5");
    check_finding(name_finding("gpu01", name_of({"::1", "127.0.0.1"}), kOwn), kWarning, "to itself");
    check_finding(name_finding("gpu01", name_of({"127.0.1.1", "10.0.0.5"}), kOwn), kOk, "10.0.0.5");
    check_finding(name_finding("gpu01", name_of({"10.9.9.9"}), kOwn), kWarning, "--listen any");
    check_finding(name_finding("gpu01", name_of({}, "Name or service not known"), kOwn), kWarning,
                  "Name or service not known");
    check_finding(name_finding("gpu01", {AnswerEnd::hangs, {}, ""}, kOwn), kWarning, "/etc/resolv.conf");
    check_finding(name_finding("gpu01", name_of({}, "x"), kLoopback), kWarning, "an address of this node");
}

TEST_CASE("doctor: addresses and interfaces") {
    check_finding(addresses_finding(kOwn, {}), kOk, "10.0.0.5 (eth0)");
    check_finding(addresses_finding(kOwn, {"eth1"}), kOk, "without an address: eth1");
    check_finding(addresses_finding(kLoopback, {"eth0"}), kWarning, "only those of loopback");
    check_finding(addresses_finding({{"eth0", "10.0.0.5", false}}, {"lo"}), kProblem, "ip link set lo up");
    check_finding(addresses_finding(kOwn, std::vector<std::string>(kNamesShown + 3, "veth")), kOk,
                  " and 3 more");
}

TEST_CASE("doctor: ports") {
    check_finding(port_finding({29500, false, 0, ""}), kOk, "port 29500: free");
    check_finding(port_finding({29500, false, EADDRINUSE, "pid 7 (sleep 9)"}), kWarning,
                  "taken by pid 7 (sleep 9)");
    check_finding(port_finding({29500, true, EADDRINUSE, ""}), kProblem, "--master-port");
    check_finding(port_finding({80, true, EACCES, ""}), kProblem, "Permission denied");
}

TEST_CASE("doctor: proxies are named, and said to be passed over") {
    check_finding(proxy_finding({}), kOk, "no variable");
    check_finding(proxy_finding({"http_proxy", "HTTPS_PROXY"}), kOk, "http_proxy, HTTPS_PROXY are set");
}

TEST_CASE("doctor: GPUs and their driver") {
    check_finding(gpu_finding(gpus_of(0, 0, "")), kOk, "none");
    check_finding(gpu_finding(gpus_of(8, 8, "550.54")), kOk, "8 of 8 from NVIDIA");
    check_finding(gpu_finding(gpus_of(8, 0, "550.54")), kWarning, "unset CUDA_VISIBLE_DEVICES");
    GpuFacts odd = gpus_of(8, 1, "");
    odd.devices.remark = "CUDA_VISIBLE_DEVICES=9 names GPU 9 of 8";
    check_finding(gpu_finding(odd), kWarning, "names GPU 9");
    odd.devices.contradiction = "HIP_VISIBLE_DEVICES=0 contradicts CUDA_VISIBLE_DEVICES=1";
    check_finding(gpu_finding(odd), kProblem, "contradicts");

    check_finding(driver_finding(gpus_of(0, 0, "")), kOk, "none");
    check_finding(driver_finding(gpus_of(8, 8, "550.54")), kOk, "550.54");
    check_finding(driver_finding(gpus_of(8, 8, "")), kWarning, "no driver");
    check_finding(driver_finding(gpus_of(0, 0, "550.54")), kWarning, "--gpus all");
}

TEST_CASE("doctor: shared memory") {
    check_finding(shared_memory_finding({0, 8 * kGiB, 8 * kGiB}), kOk, "8.0 GiB of 8.0 GiB");
    check_finding(shared_memory_finding({0, 8 * kGiB, kLittleSharedMemory}), kOk, "256.0 MiB");
    check_finding(shared_memory_finding({0, 64 << 20, 64 << 20}), kWarning, "--shm-size");
    check_finding(shared_memory_finding({0, 8 * kGiB, kLeastSharedMemory}), kWarning, "1.0 MiB");
    check_finding(shared_memory_finding({0, 8 * kGiB, kLeastSharedMemory - 1}), kProblem, "ls -l /dev/shm");
    check_finding(shared_memory_finding({ENOENT, 0, 0}), kProblem, "No such file");
}

TEST_CASE("doctor: CPUs and memory") {
    check_finding(cpu_finding({8, std::nullopt, 0}), kOk, "8 usable");
    check_finding(cpu_finding({8, 16.0, 0}), kOk, "8 usable");
    check_finding(cpu_finding({8, 1.5, 0}), kOk, "pays for 1.50");
    check_finding(cpu_finding({8, 0.5, 0}), kWarning, "pays for 0.50");
    check_finding(memory_finding({1, std::nullopt, kLittleMemory}), kOk, "1.0 GiB");
    check_finding(memory_finding({1, std::nullopt, kLittleMemory - 1}), kWarning, "--mem");
    check_finding(memory_finding({1, std::nullopt, kLeastMemory - 1}), kProblem, "--mem");
}

TEST_CASE("doctor: limits") {
    check_finding(open_files_finding(files_of(1024, 4096)), kOk, "1024 for workers, 4096 for ddprun");
    check_finding(open_files_finding(files_of({}, {})), kOk, "unlimited");
    check_finding(open_files_finding(files_of(1023, 4096)), kWarning, "ulimit -n 65536");
    check_finding(open_files_finding(files_of(64, 68)), kWarning, "64 for workers");
    check_finding(open_files_finding(files_of(64, 67)), kProblem, "ddprun needs 68");

    LimitsFacts limits;
    check_finding(locked_memory_finding(limits), kOk, "unlimited");
    limits.locked_memory.soft = 64 << 10;
    check_finding(locked_memory_finding(limits), kOk, "64.0 KiB");
    limits.has_rdma = true;
    check_finding(locked_memory_finding(limits), kWarning, "memlock=-1");
    limits.locked_memory.soft.reset();
    check_finding(locked_memory_finding(limits), kOk, "unlimited");

    check_finding(processes_finding(limits), kOk, "unlimited");
    limits.processes.soft = kFewProcesses;
    check_finding(processes_finding(limits), kOk, "4096");
    limits.processes.soft = kFewProcesses - 1;
    check_finding(processes_finding(limits), kWarning, "ulimit -u");
    limits.processes.soft = kLeastProcesses - 1;
    check_finding(processes_finding(limits), kProblem, "ulimit -u");
    limits.is_root = true;
    check_finding(processes_finding(limits), kOk, "root's are not counted");

    check_finding(core_finding(limits), kOk, "of any size");
    limits.core.soft = 0;
    check_finding(core_finding(limits), kOk, "none are written");
    limits.core.soft = 1 << 20;
    check_finding(core_finding(limits), kOk, "1.0 MiB at most");
}

TEST_CASE("doctor: folders") {
    check_finding(folder_finding(folder_of(kLittleFolderSpace)), kOk,
                  "folder /scratch: temporary files: 1.0 GiB");
    check_finding(folder_finding(folder_of(kLittleFolderSpace - 1)), kWarning, "TMPDIR");
    check_finding(folder_finding(folder_of(kLeastFolderSpace - 1)), kProblem, "TMPDIR");
    check_finding(folder_finding(folder_failed("nothing can be written", ENOSPC)), kProblem,
                  "no longer needed");
    check_finding(folder_finding(folder_failed("no file can be made", EACCES)), kProblem, "ls -ld");
    FolderFacts few = folder_of(2 * kGiB);
    few.free_files = kLeastFolderFiles - 1;
    check_finding(folder_finding(few), kOk, "2.0 GiB");
    few.counts_files = true;
    check_finding(folder_finding(few), kWarning, "99 more files only");
    FolderFacts logs = folder_failed("no file can be made", EROFS);
    logs.role = "logs";
    logs.tried = "/";
    check_finding(folder_finding(logs), kProblem, "another folder for --log-dir");
    check_finding(folder_finding(logs), kProblem, "is to be made in /: no file can be made: Read-only");
    FolderFacts hanging = folder_of(0);
    hanging.end = AnswerEnd::hangs;
    check_finding(folder_finding(hanging), kProblem, "hangs");
    hanging.end = AnswerEnd::failed;
    check_finding(folder_finding(hanging), kWarning, "has died");
    FolderFacts current = folder_of(0);
    current.is_written = false;
    check_finding(folder_finding(current), kOk, "can be reached");
    current.end = AnswerEnd::hangs;
    check_finding(folder_finding(current), kProblem, "start ddprun in another folder");
}

TEST_CASE("doctor: Python and PyTorch") {
    const PythonFacts good{"python3", "/usr/bin/python3", AnswerEnd::answered, "3.11.2", "2.6.0 in /venv"};
    check_finding(python_finding(good), kOk, "/usr/bin/python3, 3.11.2");
    check_finding(torch_finding(good), kOk, "2.6.0 in /venv");
    PythonFacts odd = good;
    odd.torch = "";
    check_finding(torch_finding(odd), kOk, "none");
    odd.version = "";
    check_finding(python_finding(odd), kProblem, "PYTHON_EXEC");
    check_finding(torch_finding(odd), kOk, "not looked for");
    odd.end = AnswerEnd::hangs;
    check_finding(python_finding(odd), kProblem, "/usr/bin/python3 hangs");
    odd.file = "";
    check_finding(python_finding(odd), kProblem, "python3 is looked for, which hangs");
    odd.end = AnswerEnd::answered;
    check_finding(python_finding(odd), kWarning, "python3 is not on PATH");
}

TEST_CASE("doctor: /proc") {
    check_finding(proc_finding(true), kOk, "/proc");
    check_finding(proc_finding(false), kWarning, "mount -t proc");
}

TEST_CASE("doctor: what was not asked is not said") {
    Surroundings seen;
    seen.host = "gpu01";
    seen.version = "1.2.3";
    const auto topics = [&seen] {
        std::string all;
        for (const Finding& finding : diagnose(seen).findings) all += finding.topic + " ";
        return all;
    };
    CHECK(topics() ==
          "version clock addresses proxy gpus driver cpus memory shared_memory open_files "
          "locked_memory processes core_files proc ");
    seen.name.emplace();
    seen.python.emplace();
    seen.ports.resize(2);
    seen.folders.resize(1);
    CHECK(topics() ==
          "version clock host_name addresses port port proxy gpus driver cpus memory shared_memory "
          "open_files locked_memory processes core_files folder python pytorch proc ");
    CHECK(diagnose(seen).host == "gpu01");
    CHECK(diagnose(seen).version == "1.2.3");
}

}  // namespace ddprun
