// Alive keeps handlers that run after their owner's end from touching the owner. Only handlers that keep the
// object alive (enable_shared_from_this) need none.
#pragma once

#include <memory>
#include <utility>

namespace ddprun {
inline namespace base {

// Alive is the last member of its owner; handlers run on the owner's thread. Other threads may call guard()
// while the owner exists.
class Alive {
  public:
    Alive() = default;
    Alive(const Alive&) = delete;
    Alive& operator=(const Alive&) = delete;

    // Returns the handler in a wrapper that does nothing once the owner is destroyed or has called end(). The
    // handler may destroy the owner.
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
