export { default } from "mqtt";
