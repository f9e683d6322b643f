// Alive keeps handlers that come after the end of their owner from touching it. It is the one way to do so,
// unless the handlers themselves are to keep the object (enable_shared_from_this).
#pragma once

#include <memory>
#include <utility>

namespace ddprun {
inline namespace base {

// It is the last member of the owner, on whose thread the handlers come. Other threads may call guard() as
// long as the owner is there.
class Alive {
  public:
    Alive() = default;
    Alive(const Alive&) = delete;
    Alive& operator=(const Alive&) = delete;

    // Returns the handler, which may destroy the owner; once that is gone, or has called end(), it does
    // nothing.
    template <typename Handler>
    auto guard(Handler handler) const {
        return [life = std::weak_ptr(life_), handler = std::move(handler)](auto&&... arguments) mutable {
            if (!life.expired()) handler(std::forward<decltype(arguments)>(arguments)...);
        };
    }

    void end() { life_.reset(); }

  private:
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

}  // namespace base
}  // namespace ddprun
