// HostSurroundings: what a messenger has from outside in a job: the lifeline, connections, and the system's
// threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <thread>

#include "collectives/liveness/lifeline.hpp"
#include "collectives/messages/message_surroundings.hpp"
#include "collectives/messages/messenger.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {

class HostSurroundings final : public MessageSurroundings {
  public:
    // HostSurroundings borrows both until the messenger's close(); null for a rank that is alone.
    HostSurroundings(const Membership* membership, Lifeline* lifeline)
        : membership_(membership), lifeline_(lifeline) {}

    std::optional<Verdict> verdict() const override;
    std::optional<std::uint64_t> left_after(int rank) const override;
    Verdict declare(const Verdict& verdict) override { return lifeline_->declare(verdict); }
    void on_news(std::function<void()> hook) override;
    std::unique_ptr<MessageLine> connect(int rank) override;
    Copied copy_from(std::int32_t pid, std::uint64_t place, void* out, std::size_t bytes) override;
    void make_thread(std::function<void()> body) override;
    void join_threads() override;
    void sleep_on(const std::atomic<std::uint32_t>& bell, std::uint32_t count, Deadline end) override;
    void poll(std::vector<pollfd>& descriptors, Deadline end) override;
    void sleep_until_called(std::unique_lock<std::mutex>& lock) override { called_.wait(lock); }
    void call_all() override { called_.notify_all(); }
    void yield() override;

  private:
    const Membership* const membership_;
    Lifeline* const lifeline_;
    std::condition_variable called_;
    std::vector<std::thread> threads_;
};

// make_messenger borrows `lifeline` as all of the place; null for a rank that is alone.
std::shared_ptr<Messenger> make_messenger(const MessengerPlace& place, Lifeline* lifeline,
                                          std::chrono::milliseconds operation_timeout);

}  // namespace detail
}  // namespace ddprun
