import { api } from '../api/client';
import type { Answer, Question } from '../api/types';
import { ApprovalCard } from './ApprovalCard';
import type { ChatStore } from './store';

/**
 * Where the gate asks: between the messages and the text box, outside of what scrolls. Text of a model or a server is drawn only inside of the
 * messages, so nothing there can stand in this place.
 */
export function ApprovalDock({ questions, store }: { questions: Question[]; store?: ChatStore }) {
  const question = questions[0];
  if (!question) return null;
  const answer = (reply: Answer) => (store ? store.answer(question.toolId, reply) : api.answer(question.toolId, reply));
  return <ApprovalCard key={question.toolId} question={question} more={questions.length - 1} answer={answer} />;
}
