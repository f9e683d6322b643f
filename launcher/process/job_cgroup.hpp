// JobCgroup is a cgroup v2 subtree for this node's part of a job, below the launcher's own cgroup:
//
//     <own cgroup>/ddprun-<pid>-<random>/worker-<local rank>
//
// Where the subtree can be made (as root, or below a delegated cgroup), each worker starts in a folder of its
// own. Then the kernel kills all of them in one stroke, which even a fork bomb does not escape. The kernel
// also counts the memory events of each worker, if the memory controller is handed down to us. Everything
// works without a JobCgroup, too, and the cgroups around ours are left as they are.
//
// Plain calls to the cgroup file system, each short; no thread of its own. A folder in use cannot be removed,
// so every process that may be the last one may hold a copy.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace launch {

class JobCgroup {
  public:
    // Makes the job's folder below `parent`; nothing if that is not permitted or is no cgroup v2. `workers`
    // says how many folders make_ahead() makes.
    static std::optional<JobCgroup> make(const std::filesystem::path& parent, int workers = 0);

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path worker_path(int local_rank) const;

    // Notes whether the worker last started with this local rank is in its folder; if not, used_path() is
    // empty.
    void note(int local_rank, bool is_used);
    std::filesystem::path used_path(int local_rank) const;

    // Makes the workers' folders before they are needed. The guardian does so while it waits for the first
    // start.
    void make_ahead();

    // Returns an open, close-on-exec descriptor of the worker's folder, which is made anew unless it is in
    // use; -1 on failure. The caller closes it.
    int open_worker(int local_rank);

    // Sends SIGKILL to every process in the subtree, and to what they fork meanwhile. Before Linux 5.14
    // nothing happens.
    void kill() const;

    // Removes every folder that has no process left. Can be repeated.
    void remove() const;

  private:
    JobCgroup(std::filesystem::path path, int workers) : path_(std::move(path)), workers_(workers) {}

    std::filesystem::path path_;
    int workers_;
    std::set<int> made_ahead_;  // local ranks, as in used_
    std::set<int> used_;
};

// Finds the folder of a process's cgroup v2 in the texts of /proc/<pid>/cgroup and /proc/<pid>/mountinfo.
// Nothing if the process has none or no mount shows it. Pure.
std::optional<std::filesystem::path> cgroup_folder(std::string_view cgroup, std::string_view mountinfo);

// Finds the folder of this process's cgroup.
std::optional<std::filesystem::path> own_cgroup_folder(const std::filesystem::path& proc = "/proc");

}  // namespace launch
}  // namespace ddprun
