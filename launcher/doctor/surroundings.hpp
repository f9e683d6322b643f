// Surroundings are what was seen of a node, not yet judged. Plain values; look_around() fills them in,
// diagnosis.hpp judges them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/device_binding.hpp"
#include "launcher/plan/gpus.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// AnswerEnd is how a question ended that a child process was asked, because it may never be answered.
enum class AnswerEnd {
    answered,
    hangs,   // not answered within its time
    failed,  // there was no child, or it died
};

struct ClockFacts {
    std::optional<bool> is_synchronised;  // nothing: the system does not say
    std::string why;                      // why the system does not say, in its words
};

struct NameFacts {
    AnswerEnd end = AnswerEnd::answered;
    std::vector<std::string> addresses;  // the addresses that the host's name stands for
    std::string why;                     // why there are none, in the resolver's words
};

struct PortFacts {
    std::uint16_t port = 0;
    bool is_needed = false;  // by the job that is about to start
    int error_number = 0;    // of bind(); 0: it is free
    std::string holder;      // "pid 7 (sleep 9)"; empty: not known
};

struct GpuFacts {
    NodeGpus gpus;
    NodeDevices devices;
    std::string driver;  // NVIDIA's version; empty: none is loaded
};

struct SpaceFacts {
    int error_number = 0;  // of statvfs()
    std::uint64_t size = 0;
    std::uint64_t free = 0;  // for this user
};

// LimitFacts is one limit of setrlimit(); nothing: no limit.
struct LimitFacts {
    std::optional<std::uint64_t> soft;
    std::optional<std::uint64_t> hard;
};

struct LimitsFacts {
    LimitFacts open_files;
    LimitFacts locked_memory;
    LimitFacts processes;
    LimitFacts core;
    bool is_root = false;   // the processes of root are not counted
    bool has_rdma = false;  // RDMA's drivers lock memory
    std::size_t descriptors_needed = 0;
};

struct CapacityFacts {
    int affinity_cpus = 1;
    std::optional<double> cpu_quota;  // of the control groups, in CPUs
    std::uint64_t memory = 0;         // the least of the machine's and all limits
};

// FolderSpace is what a folder's file system tells, and what went wrong with a small file there.
struct FolderSpace {
    int error_number = 0;  // of the step that failed
    std::uint64_t size = 0;
    std::uint64_t free = 0;
    std::uint64_t free_files = 0;
    bool counts_files = false;  // false: a file system without a table of files
};

// FolderFacts are the result of writing a small file in a folder.
struct FolderFacts : FolderSpace {
    std::string role;  // "temporary files", "logs"
    std::string path;
    AnswerEnd end = AnswerEnd::answered;
    std::string failed_step;  // "cannot be opened"; empty: all went well
    std::string tried;        // the folder itself, or the part of its path that exists
    bool is_written = true;   // whether anything is to be written there
};

struct PythonFacts {
    std::string wanted;  // as it is looked for
    std::string file;    // where it is; empty: not found
    AnswerEnd end = AnswerEnd::answered;
    std::string version;  // empty: it did not say
    std::string torch;    // of the distribution's metadata; empty: there is none
};

struct Surroundings {
    std::string version;  // of ddprun
    std::string compiler;
    std::string glibc;
    std::string kernel;
    std::string machine;  // its processors
    std::string host;
    ClockFacts clock;
    std::optional<NameFacts> name;  // nothing: not asked
    std::vector<LocalAddress> addresses;
    std::vector<std::string> idle_interfaces;  // down, or without an address
    std::vector<PortFacts> ports;
    GpuFacts gpu;
    SpaceFacts shared_memory;
    LimitsFacts limits;
    CapacityFacts capacity;
    std::vector<FolderFacts> folders;
    std::optional<PythonFacts> python;  // nothing: not asked
    std::vector<std::string> proxies;   // the names of variables, never their values
    bool sees_processes = true;
};

// --- look_around: reads /proc and /sys, binds ports for a moment, and asks through child processes what may
// never be answered. The look takes hardly longer than the children's limit.

struct FolderQuestion {
    std::string role;
    std::string path;
    bool is_written = true;    // a small file is written there, and removed
    bool may_be_made = false;  // where the folder is missing, the nearest one above it counts
};

// kLookLimit is how long children that look are waited for, by `ddprun doctor` and where a job is to start
// (--check): longer than a busy node takes.
inline constexpr std::chrono::milliseconds kLookLimit{5'000};

struct PortAsked {
    std::uint16_t port = 0;
    bool is_needed = false;
};

struct LookRequest {
    Environment environment;
    std::string host;
    std::size_t workers = 1;
    std::vector<PortAsked> ports;
    std::vector<FolderQuestion> folders;
    bool asks_name = false;
    std::optional<std::string> python;  // as it is looked for on PATH; nothing: not asked
};

// Looks at this node. There must be no other threads if a name or Python is asked for.
Surroundings look_around(const LookRequest& request);

// Returns the address by which others are to call this node: the one by which workers would be reached. The
// environment is a worker's. The address is in a network of DDPRUN_NET, else of the interface that Gloo was
// told to take (by --local-addr, or by the user). Else it is `node_addr`, by which the node has reached node
// 0; where that is empty, the first address outside loopback, else 127.0.0.1. Pure.
std::string meeting_address(const Environment& environment, const std::string& node_addr,
                            const std::vector<LocalAddress>& own);

}  // namespace launch
}  // namespace ddprun
