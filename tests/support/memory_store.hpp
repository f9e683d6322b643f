// MemoryStore: a Store within this process, for ranks that are threads.
//
// Every rank holds a MemoryStore of its own over one shared MemoryStoreData; so the rule that a Store is used
// by one thread at a time is kept while the data are shared.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "rendezvous/store/store.hpp"

namespace ddprun {

struct MemoryStoreData {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, std::string, std::less<>> values;
};

class MemoryStore final : public Store {
  public:
    explicit MemoryStore(std::shared_ptr<MemoryStoreData> data) : data_(std::move(data)) {}

    void set(std::string_view key, std::string_view value) override;
    std::string get(std::string_view key, Milliseconds timeout) override;
    std::int64_t add(std::string_view key, std::int64_t delta) override;
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override;
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
    bool check_keys(const std::vector<std::string>& keys) override;
    bool erase(std::string_view key) override;

  private:
    bool has_all(const std::vector<std::string>& keys) const;

    std::shared_ptr<MemoryStoreData> data_;
};

}  // namespace ddprun
