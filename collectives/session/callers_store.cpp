#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "collectives/key_value_store.hpp"
#include "collectives/session/bootstrap.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// How long it takes at most to learn whether a key is there.
constexpr std::chrono::milliseconds kLookTimeout{50};
// How long who was first to claim a key may take to write it.
constexpr std::chrono::milliseconds kClaimTimeout{10'000};

class CallersStore final : public Store {
  public:
    explicit CallersStore(std::shared_ptr<KeyValueStore> store) : store_(std::move(store)) {}

    void set(std::string_view key, std::string_view value) override {
        asked("set", key, [&] { store_->set(std::string(key), value); });
    }

    std::string get(std::string_view key, Milliseconds timeout) override {
        auto value = look(key, timeout);
        if (value) return std::move(*value);
        fail(Errc::timed_out,
             fmt::format("no value of '{}' in the given store within {} ms", key, timeout.count()));
    }

    std::int64_t add(std::string_view key, std::int64_t delta) override {
        std::int64_t sum = 0;
        asked("add", key, [&] { sum = store_->add(std::string(key), delta); });
        return sum;
    }

    // Who is the first to count those that expected this writes.
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override {
        std::string claims = std::string(key) + "/claims";
        if (!expected.empty()) {
            if (std::string now = get(key, kClaimTimeout); now != expected) return now;
            claims.append("/").append(expected);
        }
        if (add(claims, 1) > 1) return get(key, kClaimTimeout);
        set(key, desired);
        return std::string(desired);
    }

    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override {
        const Deadline deadline = Deadline::clock::now() + timeout;
        for (const std::string& key : keys) get(key, time_until(deadline));
    }

    bool check_keys(const std::vector<std::string>& keys) override {
        return std::all_of(keys.begin(), keys.end(),
                           [&](const std::string& key) { return look(key, kLookTimeout).has_value(); });
    }

    bool erase(std::string_view key) override {
        asked("remove", key, [&] { store_->remove(std::string(key)); });
        return true;
    }

  private:
    template <class Ask>
    static void asked(const char* name, std::string_view key, Ask ask) {
        try {
            ask();
        } catch (const std::exception& error) {
            fail(Errc::connection_lost,
                 fmt::format("the given store failed at {}('{}'): {}", name, key, error.what()));
        }
    }

    std::optional<std::string> look(std::string_view key, Milliseconds limit) {
        std::optional<std::string> value;
        asked("get", key, [&] { value = store_->get(std::string(key), std::max(limit, Milliseconds(1))); });
        return value;
    }

    std::shared_ptr<KeyValueStore> store_;
};

}  // namespace

std::shared_ptr<Store> store_over(std::shared_ptr<KeyValueStore> given) {
    return std::make_shared<CallersStore>(std::move(given));
}

}  // namespace detail
}  // namespace ddprun
