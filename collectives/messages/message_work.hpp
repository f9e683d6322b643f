// MessageWork: a send or receive that a user has started, as a Work knows it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "collectives/call/work_state.hpp"
#include "collectives/messages/message_operation.hpp"
#include "collectives/messages/messenger.hpp"

namespace ddprun {
inline namespace detail {

class MessageWork final : public WorkState {
  public:
    // Starts a send or receive. Throws invalid_argument; all else is the work's end. The work keeps
    // `messenger`.
    static std::shared_ptr<MessageWork> start(Messenger& messenger, const MessageRequest& request) {
        auto work = make_in_process<MessageWork>(request, messenger.shared_from_this());
        messenger.start(work->operation_, work);
        return work;
    }

    MessageWork(const MessageRequest& request, std::shared_ptr<Messenger> messenger)
        : operation_(request), messenger_(std::move(messenger)) {}

    bool ended() override {
        if (!operation_.has_ended()) messenger_->test();
        return operation_.has_ended();
    }
    bool wait_until(Deadline deadline) override {
        if (!operation_.has_ended()) messenger_->await(operation_, deadline);
        return operation_.has_ended();
    }
    void then(std::function<void()> done) override { messenger_->then(operation_, std::move(done)); }
    std::optional<CollectiveError> error() override { return operation_.error; }
    int source() override { return operation_.error ? -1 : operation_.source; }

  private:
    MessageOperation operation_;
    std::shared_ptr<Messenger> messenger_;
};

}  // namespace detail
}  // namespace ddprun
