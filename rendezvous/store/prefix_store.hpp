// PrefixStore: another Store under a prefix, so that each user of it has a namespace of its own.
//
// Every key becomes prefix + "/" + key; nested, the inner prefix comes first, as in PyTorch. Owned by its
// user; the underlying store is borrowed and must live longer. Adds nothing to the thread rules or failures
// of that store.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/store.hpp"

namespace ddprun {

class PrefixStore final : public Store {
  public:
    PrefixStore(std::string prefix, Store& store) : prefix_(std::move(prefix) + "/"), store_(store) {}

    void set(std::string_view key, std::string_view value) override;
    std::string get(std::string_view key, Milliseconds timeout) override;
    std::int64_t add(std::string_view key, std::int64_t delta) override;
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override;
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
    bool check_keys(const std::vector<std::string>& keys) override;
    bool erase(std::string_view key) override;

  private:
    std::string joined(std::string_view key) const;
    std::vector<std::string> joined(const std::vector<std::string>& keys) const;

    std::string prefix_;
    Store& store_;
};

}  // namespace ddprun
