#include "collectives/messages/host_surroundings.hpp"

#include <sched.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "collectives/messages/tcp_message_line.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// A large copy looks up from time to time.
constexpr std::size_t kPullPiece = std::size_t{16} << 20;

}  // namespace

std::optional<Verdict> HostSurroundings::verdict() const { return lifeline_->verdict(); }

std::optional<std::uint64_t> HostSurroundings::left_after(int rank) const {
    return lifeline_->left_after(rank);
}

void HostSurroundings::on_news(std::function<void()> hook) {
    if (lifeline_ != nullptr) lifeline_->on_news(std::move(hook), Lifeline::NewsFor::messages);
}

std::unique_ptr<MessageLine> HostSurroundings::connect(int rank) {
    return std::make_unique<TcpMessageLine>(*membership_, *lifeline_, rank);
}

Copied HostSurroundings::copy_from(std::int32_t pid, std::uint64_t place, void* out, std::size_t bytes) {
    auto* to = static_cast<std::byte*>(out);
    while (bytes > 0) {
        const std::size_t piece = std::min(bytes, kPullPiece);
        const iovec here{to, piece};
        const iovec there{reinterpret_cast<void*>(place), piece};
        const ssize_t count = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
        if (count <= 0)
            return errno == EPERM || errno == ENOSYS || errno == EACCES ? Copied::refused
                                                                        : Copied::unreadable;
        to += count;
        place += static_cast<std::uint64_t>(count);
        bytes -= static_cast<std::size_t>(count);
    }
    return Copied::all;
}

void HostSurroundings::make_thread(std::function<void()> body) {
    threads_.push_back(start_without_signals(std::move(body)));
}

void HostSurroundings::join_threads() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

void HostSurroundings::sleep_on(const std::atomic<std::uint32_t>& bell, std::uint32_t count, Deadline end) {
    const auto rest = std::clamp<Deadline::duration>(end - Deadline::clock::now(), Deadline::duration(1),
                                                     kLongestMessageSleep);
    futex_wait_for(bell, count, rest);
}

void HostSurroundings::poll(std::vector<pollfd>& descriptors, Deadline end) {
    ::poll(descriptors.data(), descriptors.size(),
           poll_timeout(std::min(end, Deadline::clock::now() + kLongestMessageSleep)));
}

void HostSurroundings::yield() { ::sched_yield(); }

std::shared_ptr<Messenger> make_messenger(const MessengerPlace& place, Lifeline* lifeline,
                                          std::chrono::milliseconds operation_timeout) {
    return make_in_process<Messenger>(place, std::make_unique<HostSurroundings>(place.membership, lifeline),
                                      operation_timeout);
}

}  // namespace detail
}  // namespace ddprun
