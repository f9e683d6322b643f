// WaitReader asks the kernel what threads wait for: descriptors, sockets, locks, children.
//
// Each object is for one look, and for the processes that wait for each other in it (the ranks of this node).
// What is the same for all of them (sockets, open files) is read when it is first needed, and then kept. Any
// threads may call read() at one time. Nothing throws on what a process does; whatever ends while it is
// looked at, or may not be looked at, only tells less. No file system is asked anything: it may be what
// hangs.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>
#include <vector>

#include "launcher/look/kernel_view.hpp"
#include "launcher/look/memory_reader.hpp"
#include "launcher/look/waits/open_files.hpp"
#include "launcher/look/waits/socket_table.hpp"
#include "launcher/look/waits/wait_kind.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace launch {

struct WaitScope {
    std::vector<pid_t> processes;  // among which the other ends of sockets and pipes are looked for
    // launcher: the process that reads what they print, and has the program that they have before exec; 0:
    // none.
    pid_t launcher = 0;
    Deadline deadline;  // of what is read for all of them
    std::string proc = "/proc";
};

class WaitReader {
  public:
    static constexpr std::size_t kMaxPath = 4096;  // of a path in a process's memory

    explicit WaitReader(WaitScope scope);

    // Returns what the thread waits for. `process` is its process, which was read just before.
    Wait read(const ProcessView& process, const ThreadView& thread, const MemoryReader& memory);

  private:
    WaitFacts facts_of(const ProcessView& process, const ThreadView& thread, const SeenWait& sight,
                       const MemoryReader& memory);
    void ask_about_descriptor(pid_t process, int descriptor, bool writes, WaitFacts& facts);
    void ask_about_socket(pid_t process, WaitFacts& facts);
    void find_other_end(pid_t process, std::string_view link, bool reads, bool writes, WaitFacts& facts);
    const OpenFiles& open_files();
    const SocketTable& sockets();

    const WaitScope scope_;
    std::once_flag files_once_;
    OpenFiles files_;
    std::once_flag sockets_once_;
    SocketTable sockets_;
};

}  // namespace launch
}  // namespace ddprun
