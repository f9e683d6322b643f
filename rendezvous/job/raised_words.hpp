// RaisedWords finds what a program has raised, in the lines of its stderr: the exception or panic that it
// shows before it ends. Pure.
//
// Of a chain of exceptions the first one counts, by which the others came about. What Python ignores, or what
// ends a thread alone, is passed over.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace job {

class RaisedWords {
  public:
    static constexpr std::size_t kMaxText = 400;

    // Takes a line without its end.
    void note(std::string_view line);

    // Returns how many exceptions have begun.
    std::size_t count() const { return count_; }
    // Returns the words of the last one that has begun, `ValueError: bad batch`; empty until they have come.
    const std::string& text() const { return text_; }

  private:
    enum class Place { outside, in_stack, before_what };

    void begin(Place place, std::string_view text);
    void begin_stack();
    void begin_message(std::string_view line);

    Place place_ = Place::outside;
    bool is_chained_ = false;  // the next stack belongs to the exception before it
    bool is_ignored_ = false;  // the next stack ends no program
    std::size_t count_ = 0;
    std::string text_;
};

// Returns true if words say no more than that the connection to another process broke, which is what the
// processes say that a failure elsewhere ends.
bool is_lost_connection(std::string_view words);

}  // namespace job
}  // namespace ddprun
